import OTASigning

extension Failure {
    init(_ error: KeyError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code)
        self.init(
            error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context,
            hint: error.hint ?? hint)
        if error.hint == nil, error.code == .noTrustedKey { hints.append(TrustOptions.secondHint) }
    }

    private static func advice(for code: KeyError.Code) -> (ExitStatus, hint: String) {
        switch code {
        case .notAKey: (.malformed, "a key is a PEM file as otaflash keygen NAME writes it")
        case .wrongAlgorithm: (.malformed, "make an Ed25519 key: otaflash keygen NAME")
        case .smallOrder: (.malformed, "signatures under this key can be forged: trust another one")
        case .tooLarge: (.malformed, "see that this is the file that was meant: a key takes some hundred bytes")
        case .passphraseRequired: (.refused, PassphraseSource.passphraseHint)
        case .wrongPassphrase: (.refused, "try again; who lost the passphrase needs a new key: otaflash keygen NAME")
        case .unusablePassphrase: (.refused, "give a passphrase of 1 to 1024 bytes")
        case .noSuchFile: (.noInput, "see that the path is right; a new key is made by: otaflash keygen NAME")
        case .notAFile: (.noInput, "give the key's file, such as release.pem")
        case .keyFilePermissions: (.refused, "make it its owner's alone: chmod 600 KEY")
        case .exists: (.cannotCreate, "keys are never overwritten: choose another name, or move the old ones away")
        case .cannotCreate: (.cannotCreate, "see that the folder exists and can be written to")
        case .readFailed: (.inputOutput, "see that the file is there and can be read: ls -l")
        case .writeFailed: (.inputOutput, "see that the disk has room: df")
        case .trustPermissions: (.refused, "remove the right of others to write: chmod go-w PATH")
        case .relativeTrustPath:
            (.usage, "give an absolute path: export OTAFLASH_TRUST=\"$PWD/KEY.pub.pem\"")
        case .badTrustScope:
            (
                .malformed,
                "a line is 'product = NAME, NAME', 'format = bundle' or 'format = mcuboot' (docs/command-line.md, "
                    + "\"Limit a trusted key\")"
            )
        case .keyIDConflict: (.malformed, "one of the two is forged: take it away, and ask its owner for the right one")
        case .noTrustedKey: (.refused, TrustOptions.firstHint)
        case .cryptography: (.fault, "see that memory is left, and which release of libcrypto this is: openssl version")
        }
    }
}
