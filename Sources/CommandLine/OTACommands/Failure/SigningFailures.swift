import OTASigning
import SystemPackage

// MARK: - Keys

extension Failure {
    /// Creates the failure for an error of a key, a passphrase or the trust store.
    init(_ error: KeyError, in invocation: Invocation) {
        let (exit, hint) = Self.advice(for: error.code)
        self.init(
            error.code.rawValue, exit, error.context.isEmpty ? error.code.rawValue : error.context,
            hint: error.hint ?? hint)
        guard error.hint == nil, error.code == .noTrustedKey else { return }
        let option = "--trust KEY.pub.pem"
        let isComplete = [Verify.name, Push.name].contains(invocation.command)
        hints = ["give the signer's public key: \(isComplete ? invocation.line(adding: option) : option)"]
        hints += TrustOptions.folderHints
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
        case .noAgent: (.unavailable, "check that the SSH agent runs: ssh-add -L")
        case .badKeyURI: (.usage, "write it like pkcs11:token=release;object=fw")
        case .tokenUnavailable: (.unavailable, "check that the token is connected: p11-kit list-modules")
        case .noSuchToken: (.unavailable, "check that the token is connected")
        case .noSuchKey: (.noInput, "check the name of the key")
        case .ambiguousKey: (.usage, "add id=%01 for the key, or serial=NUMBER for the token")
        case .pinNeeded: (.refused, PINOptions.hint)
        case .wrongPIN: (.refused, "check the PIN: each wrong PIN uses one of the token's few tries")
        case .pinLocked:
            (.refused, "unlock it: pkcs11-tool --module MODULE --login --login-type so --init-pin")
        case .signerFailed: (.unavailable, "check that the signer works, then run the command again")
        case .signerRefused: (.refused, "check that the token or the agent permits signatures with this key")
        case .signerProtocol:
            (
                .protocolBroken,
                "check that the public key and the private key belong to the same pair: otaflash inspect KEY.pub.pem"
            )
        case .signatureUnmatched:
            (
                .refused,
                "give the file that the signer wrote, such as: openssl pkeyutl -sign -rawin -inkey KEY.pem -in FILE -out FILE.sig"
            )
        case .trustPermissions: (.refused, "remove the write permission of other users: chmod go-w PATH")
        case .relativeTrustPath:
            (.usage, "give an absolute path: export OTAFLASH_TRUST=\"$PWD/KEY.pub.pem\"")
        case .badTrustScope:
            (
                .malformed,
                "each line must be 'product = NAME, NAME', 'format = KIND' (bundle, mcuboot or nordic-dfu) or 'with = KEYID', or a comment with #"
            )
        case .badTrustPolicy:
            (
                .malformed,
                "each line must be 'signatures = N' with N from 1 to 4, or 'downgrade = refuse', or a comment with #"
            )
        case .keyIDConflict:
            (.malformed, "one of the two keys is forged: remove it, and get the correct key from its owner")
        case .noTrustedKey: (.refused, "give the signer's public key: --trust KEY.pub.pem")
        case .unsupportedOpenSSL:
            (.unavailable, "run otaflash on a system with OpenSSL 3.5, such as Debian 13: openssl version")
        case .cryptography: (.fault, "check that memory is free, and check the version of libcrypto: openssl version")
        }
    }
}

// MARK: - Signing

extension Failure {
    /// Creates the failure for an error of `sign`.
    init(_ error: SigningError, in invocation: Invocation) {
        switch error {
        case .image(let error): self.init(error, in: invocation)
        case .hex(let error): self.init(error, in: invocation)
        case .bundle(let error): self.init(error, in: invocation)
        case .key(let error): self.init(error, in: invocation)
        case .refused(let code, let context, let hint):
            let (exit, advice) = Self.advice(for: code, in: invocation)
            self.init(code.rawValue, exit, context.isEmpty ? code.rawValue : context, hint: hint ?? advice)
        }
    }

    private static func advice(for code: SigningError.Code, in invocation: Invocation) -> (ExitStatus, hint: String) {
        let file = invocation.file ?? "IMAGE"
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "IMAGE").line()
        switch code {
        case .noSuchFile: return (.noInput, StandardFile.hint("check the path", for: file))
        case .notAFile: return (.noInput, "give a file, not a folder or a pipe")
        case .readFailed: return (.inputOutput, StandardFile.hint("check the read permission", for: file))
        case .emptyImage: return (.malformed, "the build may have failed: build the image again")
        case .imageTooLarge: return (.malformed, StandardFile.hint("check that this is the intended file", for: file))
        case .imageChanged: return (.inputOutput, "sign the image after the build has ended")
        case .productRequired: return (.usage, "give --product NAME, such as --product acme-thermostat")
        case .versionRequired: return (.usage, "give --version X.Y.Z, such as --version 1.4.0")
        case .productMismatch, .versionMismatch:
            return (.malformed, "omit the option to use the value in the image: \(inspect)")
        case .alreadyABundle:
            return (.usage, "give only --key to add a signature; or give the image from which the bundle was created")
        case .malformedBundle: return (.malformed, "the file is incomplete or has extra bytes: fetch it again")
        case .digestMismatch: return (.refused, "do not sign this bundle: its image was changed or damaged")
        case .unknownCriticalField:
            return (.refused, "the bundle requires a newer otaflash; this is version \(Version.number)")
        case .alreadyAnImage:
            return (.usage, "give the linked binary without a header; or omit --as to sign the image into a bundle")
        case .headerNotEmpty:
            return (.malformed, "use --pad-header to insert the header before the input; see --header-size")
        case .slotTooSmall:
            return (.malformed, "check --slot-size, --align and --max-sectors; or make the image smaller")
        case .keyRequired: return (.usage, "give --key FILE; to create a key: otaflash keygen NAME")
        case .alreadySigned: return (.usage, "omit the key that has already signed: \(inspect)")
        case .tooManySignatures: return (.refused, "sign the image again with the keys that are needed")
        case .outputChanged: return (.cannotCreate, "run the command again")
        case .outputExists: return (.cannotCreate, "use --force to replace the file, or -o to write another file")
        case .cannotCreate: return (.cannotCreate, "check that the folder exists and is writable")
        case .writeFailed: return (.inputOutput, "check that the disk has free space: df")
        }
    }
}

// MARK: - Verification

extension Failure {
    /// Creates the failure for a failed verification.
    init(_ error: VerificationError, in invocation: Invocation) {
        let file = invocation.title(or: "the file")
        self.init(
            error.code.rawValue, Self.exit(of: error.code), "\(file) was refused: \(error.context)",
            hints: [Self.advice(for: error.code, in: invocation)] + Self.consent(to: error.code, in: invocation))
    }

    /// A file whose signature could not be checked is not wrong: another machine can accept it.
    private static func exit(of code: VerificationError.Code) -> ExitStatus {
        switch code {
        case .unsupportedOpenSSL: .unavailable
        case .cryptography: .fault
        default: .refused
        }
    }

    static let unsupportedOpenSSLHint =
        "verify it on a system with OpenSSL 3.5, such as Debian 13; or remove the ML-DSA key from the trusted keys"

    private static func advice(for code: VerificationError.Code, in invocation: Invocation) -> String {
        let inspect = Invocation(command: "inspect", file: invocation.file ?? "BUNDLE").line()
        let sign = "otaflash sign --as mcuboot APP.bin --key KEY.pem --version X.Y.Z --header-size 0x200"
        switch code {
        case .unknownCriticalField: return "the file requires a newer otaflash; this is version \(Version.number)"
        case .untrustedKey:
            // With --trust, the command does not use the usual folders. So the line names them, too: their policies stay.
            var known = invocation
            if known.trust.isEmpty { known.trust = TrustOptions.usualPaths.map(\.string) }
            let line = known.line(adding: "--trust KEY.pub.pem")
            return "if you trust the signer, give the signer's public key: \(line)"
        case .keyOutOfScope:
            return "get the file that the key is for; or, if the key may sign this file, change the scope file"
        case .partnerMissing:
            let sign = Invocation(command: "sign", file: invocation.file ?? "BUNDLE").line(
                adding: "--key PARTNER.pem --force")
            return "add the signature by the other key of the pair: \(sign)"
        case .unsupportedOpenSSL: return unsupportedOpenSSLHint
        case .cryptography:
            return "check that memory is free, and check the version of libcrypto: openssl version"
        case .notSigned: return "sign the image: \(sign)"
        case .unsupportedSignature:
            return "sign the image again with a key and a digest that otaflash supports: \(sign)"
        case .encryptedImage:
            return
                "sign the encrypted image into a bundle: otaflash sign IMAGE --key KEY.pem --product P --version X.Y.Z"
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
        case .tooFewSignatures where invocation.hasImages:
            return "an MCUboot image has only one signature: sign the image into a bundle with several keys"
        case .tooFewSignatures:
            let sign = Invocation(command: "sign", file: invocation.file ?? "BUNDLE").line(
                adding: "--key KEY.pem --force")
            return "add a signature by another trusted key: \(sign)"
        case .versionNotRaised:
            return "sign the image again with a higher version: otaflash sign IMAGE --version X.Y.Z …"
        case .counterLowered:
            return
                "devices with the previous release would refuse the bundle: sign the image again with the same or a higher --counter"
        case .noCommonSigner:
            let sign = Invocation(command: "sign", file: invocation.file ?? "BUNDLE").line(adding: "--key KEY --force")
            return
                "if the previous key is not stolen, add its signature: \(sign); otherwise compare with the release that both keys signed "
                + "(docs/key-rotation.md)"
        }
    }

    /// Returns the hint for a user who accepts the file at their own risk. Only an image without a bundle can be accepted in this way. If a
    /// scope file of the user excludes the image, the error code is `key-out-of-scope`, and there is no such hint.
    private static func consent(to code: VerificationError.Code, in invocation: Invocation) -> [String] {
        switch code {
        case .untrustedKey, .notSigned, .unsupportedSignature, .encryptedImage: break
        default: return []
        }
        guard invocation.command == "push", invocation.hasImages else { return [] }
        let condition = code == .unsupportedSignature ? "if the device's bootloader supports this signature, " : ""
        let line = invocation.line(adding: PushFlag.unverifiedImage.argument)
        return ["\(condition)to push the image without verification, at your own risk: \(line)"]
    }
}
