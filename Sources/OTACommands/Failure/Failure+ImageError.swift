import OTAFirmware

extension Failure {
    /// Converts a parse error of a firmware image.
    init(_ error: ImageError, in invocation: Invocation) {
        let file = invocation.file ?? "the image"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid image: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code))
    }

    private static func advice(for code: ImageError.Code) -> String {
        switch code {
        case .emptyImage: "the build may have failed: build the image again"
        case .imageTooLarge: "an image is smaller than 4 GiB: check that this is the intended file"
        case .notAnImage: "give the binary that the device boots"
        case .wrongImageFormat: "show the type of the file: otaflash inspect IMAGE"
        case .truncatedImage, .badImageHeader, .badImageDigest, .trailingImageBytes:
            "the file is damaged or incomplete: build or fetch it again"
        }
    }
}
