import OTASigning

/// The session of a peer: a name that all its peers know. Peers of different sessions cannot chat.
public struct Session: Sendable, Hashable {
    private let key: [UInt8]

    public init(_ name: String) { key = SHA256.digest(of: Array("ble-chat session \(name)".utf8)).bytes }

    /// The number for advertisements (15 bits).
    var tag: UInt16 { UInt16(littleEndian: code([0xFF]).prefix(2)) & 0x7FFF }

    /// Returns HMAC-SHA256 (RFC 2104) of the message with the key of the session. The key is shorter than a block of 64 bytes.
    func code(_ message: [UInt8]) -> [UInt8] {
        let key = key + [UInt8](repeating: 0, count: 64 - key.count)
        let inner = SHA256.digest(of: key.map { $0 ^ 0x36 } + message).bytes
        return SHA256.digest(of: key.map { $0 ^ 0x5C } + inner).bytes
    }
}
