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
    /// The flags of the entry that change the meaning of its other fields.
    private let format: UInt16

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
        let extra = try reader.read(Int(extraLength))

        guard let name = harmlessText(nameBytes), !name.isEmpty else {
            throw ZipError(.malformed, "the name of an entry is empty, or is not UTF-8 without control characters")
        }
        self.name = name
        // Some programs look for the records of the 64-bit format in front of the end record, where a comment could contain them.
        guard commentLength == 0 else { throw ZipError(.malformed, "the directory has a comment for \(name)") }
        try Self.check(extraFields: extra, of: name)
        // Without the flag for UTF-8, some programs read the name as code page 437.
        guard flags & Self.utf8Flag != 0 || nameBytes.allSatisfy({ $0 < 0x80 }) else {
            throw ZipError(.malformed, "the name \(name) does not have the flag for UTF-8")
        }
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
        hasTrailingSizes = flags & Self.trailingSizesFlag != 0
        format = flags & (Self.trailingSizesFlag | Self.utf8Flag)
    }

    /// Parses the entry's local header (APPNOTE 4.3.7), and sets `packed`. The packed bytes are after the local header.
    ///
    /// Throws `malformed-archive` if the local header does not agree with the directory, `unsupported-archive` for an extra field that
    /// changes the entry.
    mutating func locate(with reader: inout ByteReader) throws {
        guard try reader.read(UInt32.self) == 0x0403_4B50 else {
            throw ZipError(.malformed, "there is no header at the position that the directory states for \(name)")
        }
        _ = try reader.read(2)
        let flags = try reader.read(UInt16.self)
        let methodNumber = try reader.read(UInt16.self)
        _ = try reader.read(4)
        let figures = [try reader.read(UInt32.self), try reader.read(UInt32.self), try reader.read(UInt32.self)]
        let nameLength = try reader.read(UInt16.self)
        let extraLength = try reader.read(UInt16.self)
        let localName = try reader.read(Int(nameLength))
        try Self.check(extraFields: try reader.read(Int(extraLength)), of: name)
        let start = reader.offset
        _ = try reader.read(packedSize)
        packed = start..<reader.offset
        let isSame =
            localName.elementsEqual(nameBytes) && methodNumber == method.rawValue && flags & Self.encryptionFlags == 0
            && flags & (Self.trailingSizesFlag | Self.utf8Flag) == format
        let hasSameFigures = zip(figures, self.figures).allSatisfy { $0 == $1 || hasTrailingSizes && $0 == 0 }
        guard isSame, hasSameFigures else {
            throw ZipError(.malformed, "the header of \(name) does not agree with the directory")
        }
    }

    /// Returns whether `bytes`, which are between the entry's packed bytes and the next record, belong to the entry.
    ///
    /// If the CRC-32 and the sizes follow the packed bytes (APPNOTE 4.3.9), they must be those of the directory. Their signature is
    /// optional.
    func isFollowed(by bytes: ArraySlice<UInt8>) -> Bool {
        guard hasTrailingSizes else { return bytes.isEmpty }
        var descriptor = ByteWriter()
        if bytes.count == 16 { descriptor.write(0x0807_4B50 as UInt32) }
        for figure in figures { descriptor.write(figure) }
        return bytes.elementsEqual(descriptor.bytes)
    }

    /// The CRC-32, the packed size and the unpacked size.
    private var figures: [UInt32] { [checksum, UInt32(packedSize), UInt32(size)] }

    /// Checks the extra fields of an entry (APPNOTE 4.5). Unknown fields, such as times, are accepted.
    private static func check(extraFields bytes: ArraySlice<UInt8>, of name: String) throws(ZipError) {
        var reader = ByteReader(bytes)
        while reader.remaining > 0 {
            guard let id = try? reader.read(UInt16.self), let length = try? reader.read(UInt16.self),
                (try? reader.read(Int(length))) != nil
            else { throw ZipError(.malformed, "an extra field of \(name) is longer than its place") }
            guard id != zip64Field else { throw ZipError(.unsupported, "\(name) is in the 64-bit format") }
            // otaflash uses the name in the header. Some programs use the name in this field instead.
            guard id != unicodePathField else { throw ZipError(.unsupported, "\(name) has a second name") }
        }
    }

    private static let zip64Field: UInt16 = 0x0001
    private static let unicodePathField: UInt16 = 0x7075
    private static let trailingSizesFlag: UInt16 = 0x8
    private static let utf8Flag: UInt16 = 0x800
    /// The three flags that mean encryption: 0x1 for traditional encryption, 0x40 for strong encryption, and 0x2000 for an encrypted
    /// directory.
    private static let encryptionFlags: UInt16 = 0x1 | 0x40 | 0x2000
}

/// The record at the end of an archive (APPNOTE 4.3.16). It contains the position of the directory.
struct ZipEndRecord {
    private static let signature: [UInt8] = [0x50, 0x4B, 0x05, 0x06]
    private static let length = 22
    /// The record in front of the end record that refers to the end record of the 64-bit format (APPNOTE 4.3.15).
    private static let zip64Locator: (signature: [UInt8], length: Int) = ([0x50, 0x4B, 0x06, 0x07], 20)

    let entryCount: Int
    let directory: Range<Int>

    /// Reads the end record, which must be the last 22 bytes of the archive.
    ///
    /// An end record can have a comment after it. The comment could contain another end record, and programs differ in which of them they
    /// use. So this initializer refuses a comment. Some programs use the directory of the 64-bit format whenever its locator exists, so this
    /// initializer refuses a locator, too, also in an extra field.
    init(in bytes: [UInt8]) throws(ZipError) {
        let start = bytes.count - Self.length
        guard start >= 0, bytes[start...].starts(with: Self.signature) else {
            let lowest = max(0, start - Int(UInt16.max))
            let hasRecord = stride(from: start, through: lowest, by: -1).contains { index in
                bytes[index...].starts(with: Self.signature)
            }
            throw hasRecord
                ? ZipError(.malformed, "it has a comment or other bytes after its end record")
                : ZipError(.truncated, "it has no end record")
        }
        let locator = start - Self.zip64Locator.length
        guard locator < 0 || !bytes[locator...].starts(with: Self.zip64Locator.signature) else {
            throw ZipError(.unsupported, "it is in the 64-bit format")
        }
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
        let commentLength = try reader.read(UInt16.self)
        guard commentLength == 0 else { throw ZipError(.truncated, "it ends within its comment") }
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
