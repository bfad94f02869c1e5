import OTAFirmware

extension Failure {
    /// Converts a parse error of a bundle.
    init(_ error: BundleError, in invocation: Invocation) {
        let file = invocation.file ?? "the bundle"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a valid bundle: \(error.description)",
            hint: Self.advice(for: error.code, file))
    }

    private static func advice(for code: BundleError.Code, _ file: String) -> String {
        switch code {
        case .truncated: "the file is incomplete: fetch it again, and compare its length and digest"
        case .trailingBytes: "the file has extra bytes: fetch it again, and compare its length and digest"
        case .badMagic: "create a bundle from an image: otaflash sign IMAGE --key KEY --product P --version V"
        case .unsupportedVersion, .unsupportedImageFormat, .unsupportedAlgorithm:
            "the bundle may require a newer otaflash; this is version \(Version.number)"
        case .badVersion, .missingVersion: "sign the image again with a version, such as --version 1.4.0"
        case .badProduct, .missingProduct: "sign the image again with a product, such as --product acme-thermostat"
        case .badHardware: "sign the image again with hardware revisions, such as --hardware 2 or --hardware 1..3,7"
        case .badMinimumBattery: "give a battery level of 0 to 100 per cent, such as --minimum-battery 30"
        case .badSource: "give a source of 1 to 127 bytes without control characters, such as --source v1.4.0"
        case .badRequiredVersion: "give the required version as three numbers, such as --requires 1.2.0"
        case .badCreationTime: "set SOURCE_DATE_EPOCH to Unix seconds, or unset it"
        case .badSignatureCount:
            "a bundle has at most four signatures: sign the image again with the keys that are needed"
        case .signatureOrder: "a key signs a bundle only once: omit the key that has already signed it"
        case .badManifestLength, .badImageSize, .notZero, .fieldOverrun, .fieldOrder:
            "the file is damaged, or otaflash sign did not create it: create or fetch it again"
        }
    }
}
