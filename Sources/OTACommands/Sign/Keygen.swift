import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// The command `keygen`, which creates a key pair.
struct Keygen: Command {
    static let name = "keygen"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Create an Ed25519 key pair for signing.",
        discussion: """
            keygen writes two files: the private key <name>.pem, which only you can read, and the public key \
            <name>.pub.pem. It never overwrites a file.

            Example: otaflash keygen release
            """)

    @Argument(
        help:
            "The path of the two files without their suffixes (example: keys/release). A suffix .pem or .pub.pem in <name> is ignored.",
        completion: .file())
    var name: String

    @Flag(
        help:
            "Encrypt the private key with a passphrase; default: no encryption. --passphrase-fd and --passphrase-env imply --encrypt."
    )
    var encrypt = false

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: name) }

    /// Returns the name without the suffixes `.pem` and `.pub`, so that no private key gets the name of a public key.
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
}

/// The result of the command `keygen`.
struct KeygenAnswer: CommandAnswer {
    struct Key: Encodable, Sendable {
        let keyID, `private`, `public`: String
        let encrypted: Bool
    }
    let key: Key

    var lines: [TerminalLine] {
        TextTable.pairs([
            ("Private key", "\(key.private)\(key.encrypted ? ", encrypted" : ""); keep it secret"),
            ("Public key", "\(key.public); install it where bundles are verified"),
            ("Key id", key.keyID),
        ])
    }
}
