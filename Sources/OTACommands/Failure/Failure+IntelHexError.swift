import OTAFirmware

extension Failure {
    /// Converts a parse error of an Intel HEX file.
    init(_ error: IntelHexError, in invocation: Invocation) {
        let file = invocation.file ?? "the image"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid Intel HEX file of one image: \(error.description)",
            hint: error.hint ?? Self.advice(for: error.code))
    }

    private static func advice(for code: IntelHexError.Code) -> String {
        switch code {
        case .badRecord, .badChecksum, .missingEnd, .recordAfterEnd:
            "the file is damaged or incomplete: build or fetch it again"
        case .unknownRecordType, .badAddress, .overlappingData, .noData, .spanTooLarge:
            "convert the file to a binary: objcopy -I ihex -O binary app.hex app.bin"
        }
    }
}
