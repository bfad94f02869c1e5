import ArgumentParser
import OTAFirmware
import OTASigning
import SystemPackage

struct Keygen: Verb {
    static let name = "keygen"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Make a key pair (Ed25519) to sign with.",
        discussion: """
            Writes NAME.pem, the private key, which only its owner may read, and NAME.pub.pem, the public one. \
            Neither is ever overwritten.
            """)

    @Argument(help: "Where the keys go: NAME.pem and NAME.pub.pem.", completion: .file())
    var name: String

    @Flag(help: "Encrypt the private key with a passphrase.")
    var encrypt = false

    @OptionGroup var passphrase: PassphraseOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, file: name) }

    func answer(_ console: Console) throws -> KeygenAnswer {
        // Who gives a passphrase wants it used.
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

struct KeygenAnswer: Answer {
    struct Key: Encodable, Sendable {
        let keyID, `private`, `public`: String
        let encrypted: Bool
    }
    let key: Key

    var lines: [TerminalLine] {
        TextTable.pairs([
            ("Private key", "\(key.private)\(key.encrypted ? ", encrypted" : ""); keep it to yourself"),
            ("Public key", "\(key.public); give it to whoever verifies"),
            ("Key id", key.keyID),
        ])
    }
}
