import OTAFirmware

extension Failure {
    init(_ error: ImageError, in invocation: Invocation) {
        let file = invocation.file ?? "the image"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not an image that can be sent: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code))
    }

    private static func advice(for code: ImageError.Code) -> String {
        switch code {
        case .emptyImage: "the build may have failed: make the image again"
        case .imageTooLarge: "an image has less than 4 GiB: see that this is the file that was meant"
        case .notAnImage: "give the binary that the device boots"
        case .wrongImageFormat: "see what it is: otaflash inspect IMAGE"
        case .truncatedImage, .badImageHeader, .badImageDigest, .trailingImageBytes:
            "it is damaged, or not all there: make or fetch it again"
        }
    }
}
