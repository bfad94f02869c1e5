import OTASigning

extension Failure {
    init(_ error: VerificationError, in invocation: Invocation) {
        let file = invocation.file ?? "the file"
        self.init(
            error.code.rawValue, .refused, "\(file) is refused: \(error.context)",
            hints: [Self.advice(for: error.code, in: invocation)] + Self.consent(to: error.code, in: invocation))
    }

    private static func advice(for code: VerificationError.Code, in invocation: Invocation) -> String {
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "BUNDLE").line()
        let sign = "otaflash sign --as mcuboot APP.bin --key KEY.pem"
        switch code {
        case .unknownCriticalField: return "it is from a later release of otaflash; this is \(Version.number)"
        case .untrustedKey:
            let trust = invocation.line(adding: "--trust KEY.pub.pem")
            return "if you trust who signed it, name their public key: \(trust)"
        case .keyOutOfScope:
            return "get the file that the key is for; or, if the key may sign this one, change the scope file"
        case .notSigned: return "sign it: \(sign)"
        case .unsupportedSignature:
            return "sign the program in it with an Ed25519 key: \(sign)"
        case .encryptedImage:
            return "bind it in a bundle, as it is: otaflash sign IMAGE --key KEY.pem --product P"
        case .noDigest: return "make it anew, with a digest in it: \(sign)"
        case .ambiguousImage:
            return "do not use it: no tool signs an image in this way; fetch it again from its source"
        case .badSignature: return "do not use it: it was changed after it was signed; fetch it again from its source"
        case .digestMismatch: return "do not use it: its image was changed or damaged; fetch it again from its source"
        case .demoKey:
            let allowed = invocation.line(adding: "--allow-demo-key")
            return "sign it with a key of your own (otaflash keygen NAME); for a trial: \(allowed)"
        case .wrongProduct, .wrongHardware, .counterTooLow, .requiresNewer: return "see what it is for: \(inspect)"
        }
    }

    /// An image without a bundle may be pushed at the user's own risk; a bundle may not, nor an image that the user's scope file excludes.
    private static func consent(to code: VerificationError.Code, in invocation: Invocation) -> [String] {
        switch code {
        case .untrustedKey, .notSigned, .unsupportedSignature, .encryptedImage: break
        default: return []
        }
        guard invocation.command == "push", invocation.hasImages else { return [] }
        return ["if you answer for it yourself: \(invocation.line(adding: "--unverified-image"))"]
    }
}
