internal import OTAFirmware

/// A file in an archive.
public struct ZipEntry: Sendable, Hashable {
    enum Method: UInt16 {
        case stored = 0
        case deflated = 8
    }

    /// A path, as the archive has it. Safe to show on a terminal.
    public let name: String
    /// Unpacked, in bytes.
    public let size: Int
    let method: Method
    /// CRC-32 of the unpacked bytes.
    let checksum: UInt32
    let headerOffset: Int
    private let packedSize: Int
    private let nameBytes: [UInt8]
    private let hasTrailingSizes: Bool
    /// Where its bytes are in the archive; empty until they were located.
    private(set) var packed: Range<Int> = 0..<0

    /// Reads a record of the directory (APPNOTE 4.3.12).
    init(from reader: inout ByteReader) throws {
        guard try reader.read(UInt32.self) == 0x0201_4B50 else {
            throw ZipError(.malformed, "its directory holds something else than entries")
        }
        _ = try reader.read(4)
        let flags = try reader.read(UInt16.self)
        let methodNumber = try reader.read(UInt16.self)
        _ = try reader.read(4)
        checksum = try reader.read()
        let packedSize = try reader.read(UInt32.self)
        let size = try reader.read(UInt32.self)
        let nameLength = try reader.read(UInt16.self)
        let extraLength = try reader.read(UInt16.self)
        let commentLength = try reader.read(UInt16.self)
        let disk = try reader.read(UInt16.self)
        _ = try reader.read(6)
        let headerOffset = try reader.read(UInt32.self)
        nameBytes = Array(try reader.read(Int(nameLength)))
        _ = try reader.read(Int(extraLength) + Int(commentLength))

        guard let name = harmlessText(nameBytes), !name.isEmpty else {
            throw ZipError(.malformed, "an entry's name is no plain text")
        }
        self.name = name
        guard disk == 0, size < UInt32.max, packedSize < UInt32.max, headerOffset < UInt32.max else {
            throw ZipError(.unsupported, "it is in several parts, or in the 64-bit format")
        }
        guard flags & Self.encryptionFlags == 0 else { throw ZipError(.unsupported, "\(name) is encrypted") }
        guard let method = Method(rawValue: methodNumber) else {
            throw ZipError(.unsupported, "\(name) is packed by method \(methodNumber); stored and deflated are read")
        }
        guard method == .deflated || size == packedSize else {
            throw ZipError(.malformed, "\(name) is stored, and has two sizes")
        }
        self.method = method
        self.size = Int(size)
        self.packedSize = Int(packedSize)
        self.headerOffset = Int(headerOffset)
        hasTrailingSizes = flags & 0x8 != 0
    }

    /// Reads the header in front of its bytes (APPNOTE 4.3.7).
    mutating func locate(with reader: inout ByteReader) throws {
        guard try reader.read(UInt32.self) == 0x0403_4B50 else {
            throw ZipError(.malformed, "\(name) does not begin where the directory says")
        }
        _ = try reader.read(2)
        let flags = try reader.read(UInt16.self)
        let methodNumber = try reader.read(UInt16.self)
        _ = try reader.read(4)
        let figures = (try reader.read(UInt32.self), try reader.read(UInt32.self), try reader.read(UInt32.self))
        let nameLength = try reader.read(UInt16.self)
        let extraLength = try reader.read(UInt16.self)
        let localName = try reader.read(Int(nameLength))
        _ = try reader.read(Int(extraLength))
        let start = reader.offset
        _ = try reader.read(packedSize)
        packed = start..<reader.offset
        let isSame =
            localName.elementsEqual(nameBytes) && methodNumber == method.rawValue && flags & Self.encryptionFlags == 0
            && (flags & 0x8 != 0) == hasTrailingSizes
        let hasSameFigures = figures == (checksum, UInt32(packedSize), UInt32(size))
        guard isSame, hasTrailingSizes || hasSameFigures else {
            throw ZipError(.malformed, "\(name) says something else of itself than the directory does")
        }
    }

    /// Traditional and strong encryption, and a masked directory.
    private static let encryptionFlags: UInt16 = 0x1 | 0x40 | 0x2000
}
