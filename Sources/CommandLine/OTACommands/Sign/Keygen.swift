import ArgumentParser
import OTAFirmware
import OTASigners
import OTASigning
import SystemPackage

/// The command `keygen`, which creates a key pair.
struct Keygen: Command {
    static let name = "keygen"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Create a key pair for signing.",
        discussion: """
            Example: otaflash keygen release
                     otaflash keygen card --in 'pkcs11:token=release;object=fw'
                     otaflash keygen copy --from 'pkcs11:token=release;object=fw'

            keygen writes two files: the private key <name>.pem, which only you can read, and the public key \
            <name>.pub.pem. It never overwrites a file.

            Hybrid (--algorithm hybrid): two key pairs that belong together, for Ed25519 and ML-DSA-65. Sign with both: --key release.pem \
            --key release.ml-dsa-65.pem. keygen also writes two scope files. Copy release*.pub.pem* to the folder of the trusted keys: \
            each key then counts only together with the other one. ML-DSA needs OpenSSL 3.5 (Debian 13).

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

    @Option(
        help: ArgumentHelp(
            "Algorithm.", discussion: "hybrid: a pair of two keys, for Ed25519 and ML-DSA-65.",
            valueName: "name"))
    var algorithm: KeyAlgorithm = .ed25519

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
        for name in algorithm == .hybrid ? [name, "\(name).\(SignatureAlgorithm.mlDSA65.name)"] : [name] {
            try options.refuse("the private key", at: "\(name).pem")
            try options.refuse("the public key", at: "\(name).pub.pem")
        }
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
        let keys = try algorithm.algorithms.map { (algorithm) throws(KeyError) in try PrivateKey.generate(algorithm) }
        let files = try Interrupts.deferringSignals { () throws(KeyError) in
            keys.count == 1
                ? [try KeyFile.write(keys[0], name: FilePath(name), passphrase: secret)]
                : try KeyFile.write(pair: (keys[0], keys[1]), name: FilePath(name), passphrase: secret)
        }
        let new = zip(keys, files).map { key, files in
            KeygenAnswer.Key(
                key.publicKey.id, key.publicKey.algorithm.description, public: files.publicKey.string,
                private: files.privateKey.string, encrypted: isEncrypted)
        }
        return KeygenAnswer(key: new[0], partner: new.dropFirst().first)
    }

    /// Refuses options that contradict each other or would have no effect.
    private func checkOptions() throws(Failure) {
        if token != nil, from != nil {
            throw Failure.usage("--in creates a key, and --from needs an existing key", hint: "use one of them")
        }
        guard token == nil, from == nil else {
            guard algorithm == .ed25519 else {
                throw Failure.usage(
                    token == nil
                        ? "--algorithm is for a new key, and --from has an existing key"
                        : "a token creates only Ed25519 keys",
                    hint: "remove --algorithm")
            }
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
                key: .init(publicKey.id, publicKey.algorithm.description, public: file.string, location: location))
        }
    }

    /// Writes the public key of an existing key.
    private func publicKey(of key: String, _ console: Console) throws -> KeygenAnswer {
        let name = FilePath(try pairName())
        var keys = SigningKeys(passphrases: passphrase.source, pins: pin.source(console))
        let (publicKey, location) = try keys.publicKey(at: key)
        let file = try Interrupts.deferringSignals { try KeyFile.write(publicKey, name: name) }
        return KeygenAnswer(
            key: .init(publicKey.id, publicKey.algorithm.name, public: file.string, location: location))
    }
}

/// The result of the command `keygen`.
struct KeygenAnswer: CommandAnswer {
    struct Key: Encodable, Sendable {
        let keyID, algorithm: String
        /// The path of the new file with the private key; nil with `--in` and `--from`, which create no such file.
        var `private`: String?
        let `public`: String
        /// Whether the new file with the private key is encrypted; nil with `--in` and `--from`.
        var encrypted: Bool?
        /// The place of the private key with `--in` and `--from`, as a value for `sign --key`; nil without these options.
        var location: String?

        init(
            _ id: KeyID, _ algorithm: String, public: String, private: String? = nil, encrypted: Bool? = nil,
            location: String? = nil
        ) {
            keyID = id.description
            (self.algorithm, self.public, self.private) = (algorithm, `public`, `private`)
            (self.encrypted, self.location) = (encrypted, location)
        }

        fileprivate var rows: [(String, String)] {
            let place = `private`.map { "\($0)\(encrypted == true ? ", encrypted" : ""); keep it secret" }
            return [
                ("Private key", place ?? location ?? ""),
                ("Public key", "\(`public`); install it where bundles are verified"),
                ("Key id", keyID),
            ]
        }
    }
    let key: Key
    /// The second key of a hybrid pair; otherwise nil.
    var partner: Key?

    var lines: [TerminalLine] {
        guard let partner, let first = key.private, let second = partner.private else {
            return TextTable.pairs(key.rows)
        }
        let sign = "--key \(Shell.quoted(first)) --key \(Shell.quoted(second))"
        let note =
            "The keys are a pair: sign with both (\(sign)), and install both public keys with their .scope files."
        return TextTable.pairs(key.rows) + [""] + TextTable.pairs(partner.rows) + ["", TerminalLine(note)]
    }
}

/// The value of `keygen --algorithm`.
enum KeyAlgorithm: String, ExpressibleByArgument, CaseIterable {
    case ed25519
    case mlDSA44 = "ml-dsa-44"
    case mlDSA65 = "ml-dsa-65"
    case mlDSA87 = "ml-dsa-87"
    case hybrid

    /// The algorithms of the new keys: one, or two for a pair.
    var algorithms: [SignatureAlgorithm] {
        switch self {
        case .ed25519: [.ed25519]
        case .mlDSA44: [.mlDSA44]
        case .mlDSA65: [.mlDSA65]
        case .mlDSA87: [.mlDSA87]
        case .hybrid: [.ed25519, .mlDSA65]
        }
    }
}
