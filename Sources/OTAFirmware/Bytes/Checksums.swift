/// CRC-32 as in IEEE 802.3, zip and PNG (CRC-32/ISO-HDLC: reflected polynomial 0xEDB88320, initial value and final
/// exclusive or 0xFFFFFFFF; "123456789" gives 0xCBF43926).
///
/// A running value is the CRC of the bytes so far, and 0 before the first: `update(update(0, a), b)` is the CRC of a
/// followed by b.
public enum CRC32 {
    /// The CRC of what `crc` covers, followed by `bytes`.
    public static func update(_ crc: UInt32, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
        tables.withUnsafeBufferPointer { table in
            var register = ~crc
            var index = 0
            // Eight bytes a step, one table for each of them: an image's CRC is kept while it is sent.
            while bytes.count - index >= 8 {
                let low = register ^ UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt32.self))
                let high = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: index + 4, as: UInt32.self))
                register = table[0x700 + Int(low & 0xFF)] ^ table[0x600 + Int((low >> 8) & 0xFF)]
                register ^= table[0x500 + Int((low >> 16) & 0xFF)] ^ table[0x400 + Int(low >> 24)]
                register ^= table[0x300 + Int(high & 0xFF)] ^ table[0x200 + Int((high >> 8) & 0xFF)]
                register ^= table[0x100 + Int((high >> 16) & 0xFF)] ^ table[Int(high >> 24)]
                index += 8
            }
            while index < bytes.count {
                register = table[Int((register ^ UInt32(bytes[index])) & 0xFF)] ^ (register >> 8)
                index += 1
            }
            return ~register
        }
    }

    /// The CRC of what `crc` covers, followed by `bytes`.
    public static func update(_ crc: UInt32, _ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.withContiguousStorageIfAvailable { update(crc, UnsafeRawBufferPointer($0)) }
            ?? Array(bytes).withUnsafeBytes { update(crc, $0) }
    }

    /// The CRC of `bytes`.
    public static func checksum(of bytes: some Sequence<UInt8>) -> UInt32 {
        update(0, bytes)
    }

    /// Eight tables of 256: entry `i` of table `n` is the register after byte `i` and `n` zero bytes.
    private static let tables: [UInt32] = {
        var tables = [UInt32](repeating: 0, count: 8 * 256)
        for byte in 0..<256 {
            tables[byte] = (0..<8).reduce(UInt32(byte)) { value, _ in (value >> 1) ^ (value & 1 == 1 ? 0xEDB8_8320 : 0)
            }
        }
        for index in 256..<tables.count {
            let shorter = tables[index - 256]
            tables[index] = tables[Int(shorter & 0xFF)] ^ (shorter >> 8)
        }
        return tables
    }()
}

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

/// SHA-256 fed piece by piece. This module knows where an image keeps its own digest but no cryptography: who
/// inspects an image passes the hash in (`OTASigning.SHA256`).
public protocol IncrementalHash {
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// Called once, last.
    mutating func finish() -> SHA256Digest
}
