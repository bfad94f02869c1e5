/// A SHA-256: 32 bytes.
public struct SHA256Digest: Hashable, Sendable, CustomStringConvertible {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// Nil unless `bytes` are exactly 32.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 32 else { return nil }
        self.bytes = Array(bytes)
    }

    /// The first 8 bytes: what stands for a digest over the air (docs/ota-profile.md).
    public var prefix: [UInt8] { Array(bytes.prefix(8)) }

    /// 64 lower-case hex digits.
    public var description: String { Hex.encode(bytes) }
}
