/// The passphrase of an encrypted private key file. Its bytes are wiped from memory when the last reference is released.
public struct Passphrase: Sendable {
    let bytes: SecretBytes

    /// The greatest length in bytes. It is the limit of the `openssl` command.
    public static let maximumLength = 1024

    /// - Throws: `unusable-passphrase` unless the passphrase has 1 to 1024 bytes.
    public init(_ bytes: SecretBytes) throws(KeyError) {
        guard (1...Self.maximumLength).contains(bytes.count) else {
            throw KeyError(
                .unusablePassphrase, "a passphrase has 1 to \(Self.maximumLength) bytes, not \(bytes.count)")
        }
        self.bytes = bytes
    }
}
