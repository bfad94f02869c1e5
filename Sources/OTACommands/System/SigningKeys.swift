import Glibc
import OTASigning
import SystemPackage

/// Reads the private keys of `--key`. A passphrase that is not typed on a terminal is read once and used for all keys.
struct SigningKeys {
    let passphrases: PassphraseSource
    private var passphrase: Passphrase?

    init(passphrases: PassphraseSource) { self.passphrases = passphrases }

    /// Reads a private key.
    ///
    /// - Parameter name: a file, or `env:NAME` for an environment variable that contains the PEM text.
    /// - Throws: `KeyError`, `Failure`.
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

    /// Parses a key; nil: the key is encrypted and there is no passphrase.
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
                hint: "set it to the PEM text of a private key, or give a file: --key FILE")
        }
        return SecretBytes(copying: UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}
