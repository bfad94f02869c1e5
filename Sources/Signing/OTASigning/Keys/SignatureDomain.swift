/// The purpose of a signature. An ML-DSA signature covers the context string of its domain (FIPS 204, 5.2), so a signature of one domain is
/// never valid in the other. Ed25519 has no context: the domain has no effect.
public struct SignatureDomain: Sendable {
    /// The manifest of a bundle.
    public static let bundle = SignatureDomain(context: Array("otaflash-bundle".utf8))
    /// All other messages. The messages have a prefix of their own, such as that of DSSE, and other verifiers use no context.
    public static let none = SignatureDomain(context: [])

    /// The context string as bytes. An empty string means no context.
    public let context: [UInt8]

    /// Creates another domain, for test vectors.
    package init(context: [UInt8]) { self.context = context }
}
