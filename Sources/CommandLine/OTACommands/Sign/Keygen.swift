import ArgumentParser
import OTAFirmware
import OTASigners
import OTASigning
import SystemPackage

/// The command `keygen`, which creates a key pair.
struct Keygen: Command {
    static let name = "keygen"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Create an Ed25519 key pair for signing.",
        discussion: """
            Example: otaflash keygen release
                     otaflash keygen card --in 'pkcs11:token=release;object=fw'
                     otaflash keygen copy --from 'pkcs11:token=release;object=fw'

            keygen writes two files: the private key <name>.pem, which only you can read, and the public key \
            <name>.pub.pem. It never overwrites a file.

            Token (--in): a token, such as a smart card or an HSM, creates the key pair. The private key never leaves the token. \
            keygen writes only <name>.pub.pem.

            Existing key (--from): keygen writes only <name>.pub.pem, the public key of an existing key. --from accepts the same \
            keys as 'otaflash sign --key'.
            """)

    @Argument(
        help: ArgumentHelp(
            "The path of the two files without their suffixes (example: keys/release).",
            discussion: "A suffix .pem or .pub.pem in <name> is ignored."),
        completion: .file())
    var name: String

    @Flag(
        help: ArgumentHelp(
            "Encrypt the new private key, and ask for a passphrase.",
            discussion:
                "--passphrase-fd and --passphrase-env imply --encrypt. With --from, these two options give the passphrase of the "
                + "existing key, and keygen encrypts nothing."))
    var encrypt = false

    @Option(
        name: .customLong("in"),
        help: ArgumentHelp(
            "Create the key pair in this token (example: 'pkcs11:token=release;object=fw').",
            discussion: "The PKCS#11 URI has the label of the new key. Default: write the private key to a file.",
            valueName: "uri"))
    var token: String?

    @Option(
        help: ArgumentHelp(
            "Write the public key of this private key: \(KeyOptions.forms).",
            discussion: "Default: create a key pair. \(KeyOptions.formsManual)", valueName: "key"),
        completion: .file())
    var from: String?

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup var pin: PINOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: name) }

    func validate() throws {
        guard let name = try? pairName() else { return }
        try options.refuse("the private key", at: "\(name).pem")
        try options.refuse("the public key", at: "\(name).pub.pem")
    }

    /// Returns the name without the suffixes `.pem` and `.pub`. If the suffix remained, `keygen release.pub` would write the private key to
    /// `release.pub.pem`, which is a name for a public key.
    private func pairName() throws(Failure) -> String {
        var name = name[...]
        while let suffix = [".pem", ".pub"].first(where: { name.hasSuffix($0) }) { name = name.dropLast(suffix.count) }
        guard !name.isEmpty, !name.hasSuffix("/") else {
            throw Failure.usage(
                "'\(self.name)' is not a name for a key pair", hint: "give a name: otaflash keygen release")
        }
        return String(name)
    }

    func answer(_ console: Console) throws -> KeygenAnswer {
        try StandardFile.refuse(
            name, "keygen writes two files, so it cannot write to standard output",
            hint: "give a name: otaflash keygen release")
        try checkOptions()
        if let token { return try pair(in: token, console) }
        if let from { return try publicKey(of: from, console) }
        // A passphrase option implies --encrypt.
        let isEncrypted = encrypt || passphrase.isGiven
        let name = try pairName()
        let secret = isEncrypted ? try passphrase.source.passphrase(for: "\(name).pem", isNew: true) : nil
        if let secret, secret.length < Passphrase.shortLength {
            console.warn(
                "the passphrase has only \(secret.length) bytes: someone who copies the key file can find it by trying",
                hint: "use at least \(Passphrase.shortLength) bytes, such as four random words")
        }
        let key = try PrivateKey.generate()
        let files = try Interrupts.deferringSignals { try KeyFile.write(key, name: FilePath(name), passphrase: secret) }
        return KeygenAnswer(
            key: .init(
                keyID: key.publicKey.id.description, private: files.privateKey.string, public: files.publicKey.string,
                encrypted: isEncrypted))
    }

    /// Refuses options that contradict each other or would have no effect.
    private func checkOptions() throws(Failure) {
        if token != nil, from != nil {
            throw Failure.usage("--in creates a key, and --from needs an existing key", hint: "use one of them")
        }
        guard token == nil, from == nil else {
            guard !encrypt else {
                let option = token == nil ? "--from" : "--in"
                throw Failure.usage(
                    "--encrypt is for a private key in a file, and \(option) writes none", hint: "remove --encrypt")
            }
            return
        }
        guard !pin.isGiven else {
            throw Failure.usage("a PIN is for a token", hint: "add --in or --from with a pkcs11: URI")
        }
    }

    /// Creates a key pair in a token and writes its public key.
    private func pair(in token: String, _ console: Console) throws -> KeygenAnswer {
        guard case .token(let uri) = try KeyLocation(token) else {
            throw Failure.usage(
                "'\(token)' for --in is not a PKCS#11 URI",
                hint: "use --in 'pkcs11:token=release;object=fw', for example")
        }
        let name = FilePath(try pairName())
        try KeyFile.expectNoPublicKey(name)
        let tokens = SigningKeys(passphrases: passphrase.source, pins: pin.source(console)).tokens
        return try tokens.generate(at: uri) { publicKey, location in
            let file = try Interrupts.deferringSignals { try KeyFile.write(ImagePublicKey(publicKey), name: name) }
            return KeygenAnswer(
                key: .init(keyID: publicKey.id.description, public: file.string, location: location))
        }
    }

    /// Writes the public key of an existing key.
    private func publicKey(of key: String, _ console: Console) throws -> KeygenAnswer {
        let name = FilePath(try pairName())
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        let signer = try keys.imageKey(at: key)
        let file = try Interrupts.deferringSignals { try KeyFile.write(signer.publicKey, name: name) }
        return KeygenAnswer(
            key: .init(
                keyID: signer.publicKey.id.description, public: file.string,
                location: (signer as? TokenSigner)?.location ?? key))
    }
}

/// The result of the command `keygen`.
struct KeygenAnswer: CommandAnswer {
    struct Key: Encodable, Sendable {
        let keyID: String
        /// The path of the new file with the private key; nil with `--in` and `--from`, which create no such file.
        var `private`: String?
        let `public`: String
        /// Whether the new file with the private key is encrypted; nil with `--in` and `--from`.
        var encrypted: Bool?
        /// The place of the private key with `--in` and `--from`, as a value for `sign --key`; nil without these options.
        var location: String?
    }
    let key: Key

    var lines: [TerminalLine] {
        let place = key.private.map { "\($0)\(key.encrypted == true ? ", encrypted" : ""); keep it secret" }
        return TextTable.pairs([
            ("Private key", place ?? key.location ?? ""),
            ("Public key", "\(key.public); install it where bundles are verified"),
            ("Key id", key.keyID),
        ])
    }
}
