/// The CRC-32 of IEEE 802.3, zip and PNG.
///
/// The full name is CRC-32/ISO-HDLC. The reflected polynomial is 0xEDB88320. The initial value and the final XOR value are 0xFFFFFFFF. The
/// CRC of "123456789" is 0xCBF43926.
///
/// `update` adds bytes to the CRC of all earlier bytes. The CRC of no bytes is 0. For example, `update(update(0, a), b)` is the CRC
/// of `a` followed by `b`.
public enum CRC32 {
    /// Adds `bytes` to the CRC `crc` of the earlier bytes, and returns the new CRC.
    public static func update(_ crc: UInt32, _ bytes: UnsafeRawBufferPointer) -> UInt32 {
        tables.withUnsafeBufferPointer { table in
            var register = ~crc
            var index = 0
            // The host computes the CRC during an upload, so the computation must be fast. Therefore each step processes eight bytes with
            // eight tables.
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

    /// Adds `bytes` to the CRC `crc` of the earlier bytes, and returns the new CRC.
    public static func update(_ crc: UInt32, _ bytes: some Sequence<UInt8>) -> UInt32 {
        bytes.withContiguousStorageIfAvailable { update(crc, UnsafeRawBufferPointer($0)) }
            ?? Array(bytes).withUnsafeBytes { update(crc, $0) }
    }

    /// Returns the CRC of `bytes`.
    public static func checksum(of bytes: some Sequence<UInt8>) -> UInt32 {
        update(0, bytes)
    }

    /// Eight tables of 256 entries, one after another. Entry `i` of table `n` is the register after the byte `i` and `n` zero bytes, if
    /// the register is 0 before these bytes.
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

/// A CRC-16 with the polynomial 0x1021, without reflection and without a final XOR.
///
/// With the initial value 0 (CRC-16/XMODEM), the CRC of "123456789" is 0x31C3, and the CRC of a message followed by the message's own CRC
/// (big-endian) is 0. With the initial value 0xFFFF (CRC-16/CCITT-FALSE), the CRC of "123456789" is 0x29B1.
package enum CRC16 {
    /// - Parameter initial: the initial value.
    package static func checksum(_ bytes: some Sequence<UInt8>, after initial: UInt16 = 0) -> UInt16 {
        bytes.withContiguousStorageIfAvailable { update(initial, UnsafeRawBufferPointer($0)) }
            ?? Array(bytes).withUnsafeBytes { update(initial, $0) }
    }

    // An image of a Nordic DFU package has many megabytes. The loop is not generic, because the compiler does not specialise `checksum` for
    // other modules.
    private static func update(_ initial: UInt16, _ bytes: UnsafeRawBufferPointer) -> UInt16 {
        table.withUnsafeBufferPointer { table in
            var crc = initial
            for byte in bytes { crc = table[Int(UInt8(crc >> 8) ^ byte)] ^ (crc << 8) }
            return crc
        }
    }

    /// Entry `i` is the CRC of the byte `i` after the initial value 0.
    private static let table: [UInt16] = {
        var table = [UInt16](repeating: 0, count: 256)
        for byte in 0..<256 {
            var crc = UInt16(byte) << 8
            for _ in 0..<8 { crc = crc & 0x8000 == 0 ? crc << 1 : (crc << 1) ^ 0x1021 }
            table[byte] = crc
        }
        return table
    }()
}

/// A SHA-256 digest.
public struct SHA256Digest: Hashable, Sendable, CustomStringConvertible {
    /// The 32 bytes of the digest.
    public let bytes: [UInt8]

    /// Returns nil if `bytes` does not have 32 bytes.
    public init?(bytes: some Collection<UInt8>) {
        guard bytes.count == 32 else { return nil }
        self.bytes = Array(bytes)
    }

    /// The first 8 bytes. The OTA profile sends these bytes in place of the whole digest (docs/ota-profile.md).
    public var prefix: [UInt8] { Array(bytes.prefix(8)) }

    /// The digest as 64 lower-case hex digits.
    public var description: String { Hex.encode(bytes) }
}

/// A SHA-256 computation that receives the data in parts.
///
/// This module contains no cryptography. Therefore the caller of `FirmwareInspector` provides the hash function, for example
/// `OTASigning.SHA256`.
public protocol IncrementalHash {
    mutating func update(_ bytes: UnsafeRawBufferPointer)
    /// Returns the digest. Call this function once, after the last call of `update`.
    mutating func finish() -> SHA256Digest
}
