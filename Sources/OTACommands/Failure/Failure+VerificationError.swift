import OTASigning

extension Failure {
    init(_ error: VerificationError, in situation: Situation) {
        let file = situation.file ?? "the bundle"
        self.init(
            error.code.rawValue, .refused, "\(file) is refused: \(error.context)",
            hint: Self.advice(for: error.code, in: situation))
    }

    private static func advice(for code: VerificationError.Code, in situation: Situation) -> String {
        let inspect = Situation(command: "inspect", file: situation.file ?? "BUNDLE").line()
        switch code {
        case .unknownCriticalField: return "it is from a later release of otaflash; this is \(Version.number)"
        case .untrustedKey:
            return "if you trust who signed it, name their public key: \(situation.line(adding: "--trust KEY.pub.pem"))"
        case .badSignature: return "do not use it: it was changed after it was signed; fetch it again from its source"
        case .digestDiffers: return "do not use it: its image was changed or damaged; fetch it again from its source"
        case .demoKey:
            let allowed = situation.line(adding: "--allow-demo-key")
            return "sign it with a key of your own (otaflash keygen NAME); for a trial: \(allowed)"
        case .wrongProduct, .wrongHardware, .counterTooLow, .requiresNewer: return "see what it is for: \(inspect)"
        }
    }
}
