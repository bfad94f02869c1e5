internal import OTAFirmware

/// An entry of a zip archive.
public struct ZipEntry: Sendable, Hashable {
    enum Method: UInt16 {
        case stored = 0
        case deflated = 8
    }

    /// The name of the entry, as stored in the archive. The name can be printed on a terminal, because it contains no control characters.
    public let name: String
    /// The unpacked size in bytes.
    public let size: Int
    let method: Method
    /// The CRC-32 of the unpacked bytes.
    let checksum: UInt32
    /// The position of the entry's local header in the archive, in bytes from the start.
    let headerOffset: Int
    private let packedSize: Int
    private let nameBytes: [UInt8]
    /// True if the archive contains the CRC-32 and the sizes of the entry after its packed bytes (flag 0x8). The local header may then
    /// contain zeros instead of these values.
    private let hasTrailingSizes: Bool
    /// The range of the entry's packed bytes in the archive. The range is empty until `locate(with:)` sets it.
    private(set) var packed: Range<Int> = 0..<0

    /// Parses an entry of the archive's directory (APPNOTE 4.3.12).
    init(from reader: inout ByteReader) throws {
        guard try reader.read(UInt32.self) == 0x0201_4B50 else {
            throw ZipError(.malformed, "its directory contains a record that is not an entry")
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
            throw ZipError(.malformed, "the name of an entry is empty, or is not UTF-8 without control characters")
        }
        self.name = name
        guard disk == 0, size < UInt32.max, packedSize < UInt32.max, headerOffset < UInt32.max else {
            throw ZipError(.unsupported, "it is split into parts, or in the 64-bit format")
        }
        guard flags & Self.encryptionFlags == 0 else { throw ZipError(.unsupported, "\(name) is encrypted") }
        guard let method = Method(rawValue: methodNumber) else {
            throw ZipError(
                .unsupported, "\(name) uses compression method \(methodNumber), expected stored (0) or deflated (8)")
        }
        guard method == .deflated || size == packedSize else {
            throw ZipError(.malformed, "\(name) is stored, but its packed size is not its unpacked size")
        }
        self.method = method
        self.size = Int(size)
        self.packedSize = Int(packedSize)
        self.headerOffset = Int(headerOffset)
        hasTrailingSizes = flags & 0x8 != 0
    }

    /// Parses the entry's local header (APPNOTE 4.3.7), and sets `packed`. The packed bytes are after the local header.
    ///
    /// Throws `malformed-archive` if the local header does not agree with the directory.
    mutating func locate(with reader: inout ByteReader) throws {
        guard try reader.read(UInt32.self) == 0x0403_4B50 else {
            throw ZipError(.malformed, "there is no header at the position that the directory states for \(name)")
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
            throw ZipError(.malformed, "the header of \(name) does not agree with the directory")
        }
    }

    /// The three flags that mean encryption: 0x1 for traditional encryption, 0x40 for strong encryption, and 0x2000 for an encrypted
    /// directory.
    private static let encryptionFlags: UInt16 = 0x1 | 0x40 | 0x2000
}

/// The record at the end of an archive (APPNOTE 4.3.16). It contains the position of the directory.
struct ZipEndRecord {
    private static let signature: [UInt8] = [0x50, 0x4B, 0x05, 0x06]
    private static let length = 22

    let entryCount: Int
    let directory: Range<Int>

    /// Finds the end record.
    ///
    /// An end record ends with a comment of variable length, and the archive must end directly after this comment. If two end records meet
    /// this condition, this initializer refuses the archive, because two programs could use different records.
    init(in bytes: [UInt8]) throws(ZipError) {
        let lowest = max(0, bytes.count - Self.length - Int(UInt16.max))
        let starts = stride(from: bytes.count - Self.length, through: lowest, by: -1).filter { start in
            bytes[start...].starts(with: Self.signature)
                && start + Self.length + Int(bytes[start + 20]) + Int(bytes[start + 21]) << 8 == bytes.count
        }
        guard let start = starts.first else { throw ZipError(.truncated, "it has no end record") }
        guard starts.count == 1 else { throw ZipError(.malformed, "it has two end records") }
        do {
            try self.init(ByteReader(bytes[start...]), at: start)
        } catch let error as ZipError {
            throw error
        } catch {
            throw ZipError(.truncated, "it ends within its end record")
        }
    }

    private init(_ record: ByteReader, at start: Int) throws {
        var reader = record
        _ = try reader.read(4)
        let disks = (try reader.read(UInt16.self), try reader.read(UInt16.self))
        let counts = (try reader.read(UInt16.self), try reader.read(UInt16.self))
        let size = try reader.read(UInt32.self)
        let offset = try reader.read(UInt32.self)
        guard disks == (0, 0), counts.0 == counts.1, counts.0 < UInt16.max, size < UInt32.max, offset < UInt32.max
        else {
            throw ZipError(.unsupported, "it is split into parts, or in the 64-bit format")
        }
        guard counts.0 <= ZipArchive.maximumEntries else {
            throw ZipError(.tooLarge, "it has \(counts.0) entries, expected at most \(ZipArchive.maximumEntries)")
        }
        guard UInt64(offset) + UInt64(size) == start else {
            throw ZipError(.malformed, "its directory is not at the position that its end record states")
        }
        entryCount = Int(counts.0)
        directory = Int(offset)..<start
    }
}
