/// What selects a public key: the first 8 bytes of SHA-256 over its 32 raw bytes. It proves nothing.
public struct KeyID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The 8 bytes.
    public let bytes: [UInt8]

    /// Nil unless `bytes` are exactly 8.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 8 else { return nil }
        self.bytes = Array(bytes)
    }

    public static func < (left: KeyID, right: KeyID) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

    /// 16 lower-case hex digits.
    public var description: String { Hex.encode(bytes) }
}
