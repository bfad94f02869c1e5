/// What a private key file is encrypted with. Wiped from memory when the last reference goes.
public struct Passphrase: Sendable {
    let bytes: SecretBytes

    /// The longest that the `openssl` command takes, in bytes.
    public static let maximumLength = 1024

    /// - Throws: `unusable-passphrase` unless there are 1 to 1024 bytes.
    public init(_ bytes: SecretBytes) throws(KeyError) {
        guard (1...Self.maximumLength).contains(bytes.count) else {
            throw KeyError(
                .unusablePassphrase, "a passphrase has 1 to \(Self.maximumLength) bytes, not \(bytes.count)")
        }
        self.bytes = bytes
    }
}
