import OTASigning

extension Failure {
    /// Converts an error of a key, a passphrase or the trust store.
    init(_ error: KeyError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code)
        self.init(
            error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context,
            hint: error.hint ?? hint)
        if error.hint == nil, error.code == .noTrustedKey { hints.append(TrustOptions.secondHint) }
    }

    private static func advice(for code: KeyError.Code) -> (ExitStatus, hint: String) {
        switch code {
        case .notAKey: (.malformed, "give a PEM file as written by otaflash keygen NAME")
        case .wrongAlgorithm: (.malformed, "create an Ed25519 key: otaflash keygen NAME")
        case .smallOrder: (.malformed, "signatures by this key can be forged: use another key")
        case .tooLarge: (.malformed, "check that this is the intended file: a key file has a few hundred bytes")
        case .passphraseRequired: (.refused, PassphraseSource.passphraseHint)
        case .wrongPassphrase:
            (.refused, "try again; if the passphrase is lost, create a new key: otaflash keygen NAME")
        case .unusablePassphrase: (.refused, "give a passphrase of 1 to 1024 bytes")
        case .noSuchFile: (.noInput, "check the path; to create a key: otaflash keygen NAME")
        case .notAFile: (.noInput, "give a key file, such as release.pem")
        case .keyFilePermissions: (.refused, "allow only the owner to read it: chmod 600 KEY")
        case .exists: (.cannotCreate, "otaflash never overwrites keys: choose another name, or move the old keys")
        case .cannotCreate: (.cannotCreate, "check that the folder exists and is writable")
        case .readFailed: (.inputOutput, "check that the file exists and is readable: ls -l")
        case .writeFailed: (.inputOutput, "check that the disk has free space: df")
        case .trustPermissions: (.refused, "remove the write permission of other users: chmod go-w PATH")
        case .relativeTrustPath:
            (.usage, "give an absolute path: export OTAFLASH_TRUST=\"$PWD/KEY.pub.pem\"")
        case .badTrustScope:
            (
                .malformed,
                "each line must be 'product = NAME, NAME', 'format = bundle' or 'format = mcuboot' (docs/command-line.md, "
                    + "\"Limit a trusted key\")"
            )
        case .keyIDConflict:
            (.malformed, "one of the two keys is forged: remove it, and get the correct key from its owner")
        case .noTrustedKey: (.refused, TrustOptions.firstHint)
        case .cryptography: (.fault, "check that memory is free, and check the version of libcrypto: openssl version")
        }
    }
}
