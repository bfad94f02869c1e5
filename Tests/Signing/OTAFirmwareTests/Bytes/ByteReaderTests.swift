import OTAFirmware
import Testing

@Suite("Byte reader and writer") struct ByteReaderTests {
    @Test("integers are read in little-endian and big-endian order")
    func integersInBothOrders() throws {
        var reader = ByteReader([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
        #expect(try reader.read(UInt8.self) == 1)
        #expect(try reader.read(UInt16.self) == 0x0302)
        #expect(try reader.read(UInt32.self, .bigEndian) == 0x0405_0607)
        #expect(try reader.read(UInt16.self, .bigEndian) == 0x0809)
        #expect(reader.offset == 9)
        #expect(reader.remaining == 2)
        #expect(Array(reader.unread) == [10, 11])
    }

    @Test("128-bit integers are read in both byte orders")
    func wideIntegers() throws {
        let bytes = Array(UInt8(1)...16)
        var little = ByteReader(bytes)
        var big = ByteReader(bytes)
        #expect(try little.read(UInt128.self) == 0x100F_0E0D_0C0B_0A09_0807_0605_0403_0201)
        #expect(try big.read(UInt128.self, .bigEndian) == 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10)
    }

    @Test("a reader of a slice starts at the first byte of the slice")
    func aSliceIsReadFromItsStart() throws {
        var reader = ByteReader([0, 0, 0x34, 0x12, 0][2..<4], offset: 100)
        #expect(try reader.read(UInt16.self) == 0x1234)
        #expect(reader.offset == 102)
        #expect(reader.remaining == 0)
    }

    @Test("a read past the end is refused and skips no bytes")
    func theEndIsNotPassed() throws {
        var reader = ByteReader([1, 2, 3])
        _ = try reader.read(2)
        #expect(throws: ByteReader.Truncated(offset: 2, expected: 4, found: 1)) { try reader.read(UInt32.self) }
        #expect(throws: ByteReader.Truncated(offset: 2, expected: .max, found: 1)) { try reader.read(.max) }
        #expect(try reader.read(-1).isEmpty)
        #expect(try reader.read(UInt8.self) == 3)
    }

    @Test("a reader for a part continues the offsets of its parent")
    func aPartKeepsTheOffsets() throws {
        var reader = ByteReader([0, 1, 2, 3, 4])
        _ = try reader.read(1)
        var part = try reader.reader(over: 2)
        #expect(reader.offset == 3)
        #expect(try part.read(UInt16.self) == 0x0201)
        #expect(throws: ByteReader.Truncated(offset: 3, expected: 1, found: 0)) { try part.read(UInt8.self) }
        #expect(throws: ByteReader.Truncated(offset: 3, expected: 3, found: 2)) { try reader.reader(over: 3) }
    }

    @Test("the writer encodes integers in the requested byte order")
    func whatIsWrittenIsRead() throws {
        var writer = ByteWriter()
        writer.write(UInt8(1))
        writer.write(UInt16(0x0203))
        writer.write(UInt32(0x0405_0607), .bigEndian)
        writer.writeZeros(2)
        writer.write([9])
        #expect(writer.bytes == [1, 3, 2, 4, 5, 6, 7, 0, 0, 9])
    }
}
