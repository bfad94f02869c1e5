import Glibc
import OTASigning
import SystemPackage

/// Reads the private keys that `--key` names. A passphrase that does not come from a terminal is read once and opens all
/// of them.
struct SigningKeys {
    let passphrases: PassphraseSource
    private var passphrase: Passphrase?

    init(passphrases: PassphraseSource) { self.passphrases = passphrases }

    /// - Parameter name: a file, or `env:NAME` for a variable that holds the PEM text.
    mutating func key(at name: String) throws -> PrivateKey {
        let text = try Self.text(of: name)
        if let key = try Self.opened(text, passphrase, name) { return key }
        let secret = try passphrases.passphrase(for: name)
        if case .terminal = passphrases {} else { passphrase = secret }
        guard let key = try Self.opened(text, secret, name) else {
            throw KeyError(.passphraseRequired, "\(name): the key is encrypted with a passphrase")
        }
        return key
    }

    /// Nil: it is encrypted, and there is no passphrase.
    private static func opened(
        _ text: SecretBytes, _ passphrase: Passphrase?, _ name: String
    ) throws(KeyError) -> PrivateKey? {
        do {
            return try PrivateKey(pem: text, passphrase: passphrase)
        } catch {
            if error.code == .passphraseRequired, passphrase == nil { return nil }
            throw KeyError(error.code, "\(name): \(error.context)", hint: error.hint)
        }
    }

    private static func text(of name: String) throws -> SecretBytes {
        guard name.hasPrefix("env:") else { return try KeyFile.privateKeyText(at: FilePath(name)) }
        let variable = String(name.dropFirst("env:".count))
        guard let value = getenv(variable) else {
            throw KeyError(
                .noSuchFile, "the environment variable \(variable) is not set",
                hint: "put the PEM text of a private key in it, or give a file: --key FILE")
        }
        return SecretBytes(copying: UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}
