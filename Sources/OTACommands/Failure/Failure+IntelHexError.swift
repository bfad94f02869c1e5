import OTAFirmware

extension Failure {
    init(_ error: IntelHexError, in invocation: Invocation) {
        let file = invocation.file ?? "the image"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not Intel HEX of an image: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code))
    }

    private static func advice(for code: IntelHexError.Code) -> String {
        switch code {
        case .badRecord, .badChecksum, .missingEnd, .recordAfterEnd:
            "it is damaged, or not all there: make or fetch it again"
        case .unknownRecordType, .badAddress, .overlappingData, .noData, .spanTooLarge:
            "make a binary of it: objcopy -I ihex -O binary app.hex app.bin"
        }
    }
}
