import OTAFirmware

/// Where a device stands in the open object: `[next u16][offset u32][CRC-32 u32]`, little-endian, 10 bytes. The object's
/// first `offset` bytes are taken, and `crc` is theirs.
package struct Position: Equatable {
    /// The sequence number that the device expects.
    package var next: UInt16
    /// In bytes.
    package var offset: Int
    package var crc: UInt32

    package init(next: UInt16, offset: Int, crc: UInt32) {
        self.next = next
        self.offset = offset
        self.crc = crc
    }

    init(from reader: inout ByteReader) throws(ByteReader.Truncated) {
        next = try reader.read()
        offset = Int(try reader.read(UInt32.self))
        crc = try reader.read()
    }
}
