import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

/// Creates a key pair.
struct Keygen: Command {
    static let name = "keygen"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Create an Ed25519 key pair for signing.",
        discussion: """
            Writes the private key <name>.pem (readable only by its owner) and the public key <name>.pub.pem. An existing \
            file is never overwritten.
            """)

    @Argument(help: "The path of both keys, without .pem (example: release).", completion: .file())
    var name: String

    @Flag(help: "Encrypt the private key with a passphrase.")
    var encrypt = false

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: name) }

    func answer(_ console: Console) throws -> KeygenAnswer {
        // A passphrase option implies --encrypt.
        let isEncrypted = encrypt || passphrase.isGiven
        let secret = isEncrypted ? try passphrase.source.passphrase(for: "\(name).pem", isNew: true) : nil
        let key = try PrivateKey.generate()
        let files = try Interrupts.deferringSignals { try KeyFile.write(key, name: FilePath(name), passphrase: secret) }
        return KeygenAnswer(
            key: .init(
                keyID: key.publicKey.id.description, private: files.privateKey.string, public: files.publicKey.string,
                encrypted: isEncrypted))
    }
}

/// The result of `keygen`.
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
