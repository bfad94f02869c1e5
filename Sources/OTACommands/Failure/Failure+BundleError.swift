import OTAFirmware

extension Failure {
    /// What the file is instead would be the better answer than an offset, where it is no bundle at all.
    init(_ error: BundleError, in invocation: Invocation) {
        let file = invocation.file ?? "the bundle"
        self.init(
            error.code.rawValue, .malformed, "\(file) is not a bundle that can be read: \(error.description)",
            hint: Self.advice(for: error.code, file))
    }

    private static func advice(for code: BundleError.Code, _ file: String) -> String {
        switch code {
        case .truncated: "it is not all there: fetch it again, and compare its length and digest"
        case .trailingBytes: "something was added to it: fetch it again, and compare its length and digest"
        case .badMagic: "a bundle is made of an image by: otaflash sign IMAGE --key KEY --product P --version V"
        case .unsupportedVersion, .unsupportedImageFormat, .unsupportedAlgorithm:
            "it may be from a later release of otaflash; this is \(Version.number)"
        case .badVersion, .missingVersion: "give a version such as --version 1.4.0, or sign it anew with one"
        case .badProduct, .missingProduct: "give a product such as --product acme-thermostat, or sign it anew with one"
        case .badHardware: "give revisions such as --hardware 2 or --hardware 1..3,7, or sign it anew with them"
        case .badMinimumBattery: "a battery level is 0 to 100 per cent, such as --minimum-battery 30"
        case .badSource: "a source is 1 to 127 bytes without control characters, such as --source v1.4.0"
        case .badRequiredVersion: "a required version is three numbers, such as --requires 1.2.0"
        case .badCreationTime: "set SOURCE_DATE_EPOCH to Unix seconds, or unset it"
        case .badSignatureCount: "a bundle takes up to four signatures: sign the image anew with those that are needed"
        case .signatureOrder: "a key signs a bundle once: leave out the key that has signed already"
        case .badManifestLength, .badImageSize, .notZero, .fieldOverrun, .fieldOrder:
            "it was damaged, or not made by otaflash sign: make or fetch it again"
        }
    }
}
