import OTASigning

extension Failure {
    /// Converts the error of a failed verification.
    init(_ error: VerificationError, in invocation: Invocation) {
        let file = invocation.file ?? "the file"
        self.init(
            error.code.rawValue, .refused, "\(file) was refused: \(error.context)",
            hints: [Self.advice(for: error.code, in: invocation)] + Self.consent(to: error.code, in: invocation))
    }

    private static func advice(for code: VerificationError.Code, in invocation: Invocation) -> String {
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "BUNDLE").line()
        let sign = "otaflash sign --as mcuboot APP.bin --key KEY.pem"
        switch code {
        case .unknownCriticalField: return "the file requires a newer otaflash; this is version \(Version.number)"
        case .untrustedKey:
            let trust = invocation.line(adding: "--trust KEY.pub.pem")
            return "if you trust the signer, give the signer's public key: \(trust)"
        case .keyOutOfScope:
            return "get the file that the key is for; or, if the key may sign this file, change the scope file"
        case .notSigned: return "sign the program: \(sign)"
        case .unsupportedSignature:
            return "sign the program in the image with an Ed25519 key: \(sign)"
        case .encryptedImage:
            return "sign the encrypted image into a bundle: otaflash sign IMAGE --key KEY.pem --product P"
        case .noDigest: return "create the image again with a digest: \(sign)"
        case .ambiguousImage:
            return "do not use the file: no tool signs an image in this way; fetch it again from its source"
        case .badSignature:
            return "do not use the file: it was changed after it was signed; fetch it again from its source"
        case .digestMismatch:
            return "do not use the file: its image was changed or damaged; fetch it again from its source"
        case .demoKey:
            let allowed = invocation.line(adding: "--allow-demo-key")
            return "sign it with your own key (otaflash keygen NAME); to accept the demo key in a test: \(allowed)"
        case .wrongProduct, .wrongHardware, .counterTooLow, .requiresNewer:
            return "show the target of the file: \(inspect)"
        }
    }

    /// The hint to accept the file at the user's own risk. Only images without a bundle can be accepted in this way.
    /// Bundles and images that the user's scope file excludes cannot.
    private static func consent(to code: VerificationError.Code, in invocation: Invocation) -> [String] {
        switch code {
        case .untrustedKey, .notSigned, .unsupportedSignature, .encryptedImage: break
        default: return []
        }
        guard invocation.command == "push", invocation.hasImages else { return [] }
        return [
            "to push the image without verification, at your own risk: \(invocation.line(adding: "--unverified-image"))"
        ]
    }
}
