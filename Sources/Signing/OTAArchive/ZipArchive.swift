internal import CZlib
internal import OTAFirmware

/// A zip archive in memory (PKWARE APPNOTE 6.3.10).
///
/// The parser refuses an archive that another program could read differently. Some programs read the directory, and others read the entries
/// one after another. So the entries must follow each other without a gap, from the first byte to the directory, and the archive must
/// have no comments, no second directory and no second names. This type never writes a file, so an entry name such as `../x` is harmless.
public struct ZipArchive: Sendable {
    /// The maximum number of entries. An archive with more entries is refused. An update package contains only a few files.
    public static let maximumEntries = 256
    /// The maximum sum of the unpacked sizes of all entries, in bytes: 256 MiB. Without this limit, a small archive could state very large
    /// unpacked sizes, and its unpacked contents would use all memory.
    public static let maximumLength = 256 << 20

    /// The entries, in the same order as in the archive's directory. The directory is the list of all entries in the archive.
    public let entries: [ZipEntry]
    private let bytes: [UInt8]

    /// Parses the directory of an archive and the local header of each entry. The entries are not unpacked.
    ///
    /// - Throws: `truncated-archive`, `malformed-archive`, `unsupported-archive`, `archive-too-large`.
    public init(_ bytes: [UInt8]) throws(ZipError) {
        let end = try ZipEndRecord(in: bytes)
        var reader = ByteReader(bytes[end.directory], offset: end.directory.lowerBound)
        var entries: [ZipEntry] = []
        for _ in 0..<end.entryCount { entries.append(try Self.reading { () throws in try ZipEntry(from: &reader) }) }
        guard reader.remaining == 0 else {
            throw ZipError(.malformed, "its directory has \(reader.remaining) bytes after the last entry")
        }
        self.bytes = bytes
        self.entries = try Self.located(entries, in: bytes, before: end.directory.lowerBound)
        try checkSizes()
    }

    /// Returns the entry with this name; nil if the archive does not contain such an entry.
    ///
    /// The names are compared as bytes, because Swift strings with different bytes can be equal (canonical equivalence).
    public subscript(name: String) -> ZipEntry? { entries.first { $0.name.utf8.elementsEqual(name.utf8) } }

    /// Returns the unpacked bytes of an entry.
    ///
    /// - Throws: `damaged-archive` if the entry cannot be unpacked or its CRC-32 is wrong.
    public func contents(of entry: ZipEntry) throws(ZipError) -> [UInt8] {
        let packed = bytes[entry.packed]
        let contents: [UInt8]
        switch entry.method {
        case .stored: contents = Array(packed)
        case .deflated:
            guard let inflated = Inflater.inflate(packed, to: entry.size) else {
                throw ZipError(
                    .damaged, "\(entry.name) cannot be unpacked to its declared size of \(entry.size) bytes")
            }
            contents = inflated
        }
        guard CRC32.checksum(of: contents) == entry.checksum else {
            throw ZipError(.damaged, "the CRC-32 of \(entry.name) does not match its contents")
        }
        return contents
    }

    private func checkSizes() throws(ZipError) {
        guard Set(entries.map(\.name)).count == entries.count else {
            throw ZipError(.malformed, "two entries have the same name")
        }
        // The sum cannot overflow, because there are at most 256 sizes, and each size is less than 2^32.
        guard entries.reduce(0, { $0 + $1.size }) <= Self.maximumLength else {
            throw ZipError(.tooLarge, "its unpacked size is above the limit of \(Self.maximumLength >> 20) MiB")
        }
    }

    /// Returns the entries with the positions of their packed bytes. The directory does not contain these positions, so this function
    /// parses the local header of each entry.
    ///
    /// - Throws: `malformed-archive` if a local header does not agree with the directory, or if the entries overlap or have gaps.
    ///   `unsupported-archive` for the 64-bit format. `truncated-archive` if the archive contains only a part of an entry.
    private static func located(
        _ entries: [ZipEntry], in bytes: [UInt8], before directory: Int
    ) throws(ZipError) -> [ZipEntry] {
        var located: [ZipEntry] = []
        for var entry in entries {
            guard entry.headerOffset < directory else {
                throw ZipError(.malformed, "\(entry.name) is not before the archive's directory")
            }
            var reader = ByteReader(bytes[entry.headerOffset..<directory], offset: entry.headerOffset)
            try reading { () throws in try entry.locate(with: &reader) }
            located.append(entry)
        }
        let inOrder = located.sorted { $0.headerOffset < $1.headerOffset }
        guard (inOrder.first?.headerOffset ?? directory) == 0 else {
            throw ZipError(.malformed, "it does not begin with an entry")
        }
        for (entry, next) in zip(inOrder, inOrder.dropFirst().map(\.headerOffset) + [directory]) {
            guard entry.packed.upperBound <= next, entry.isFollowed(by: bytes[entry.packed.upperBound..<next]) else {
                throw ZipError(.malformed, "\(entry.name) does not end where the next record begins")
            }
        }
        return located
    }

    /// Runs `body` and returns its result. Converts an error of `ByteReader` to `truncated-archive`.
    private static func reading<Result>(_ body: () throws -> Result) throws(ZipError) -> Result {
        do {
            return try body()
        } catch let error as ZipError {
            throw error
        } catch {
            throw ZipError(.truncated, "it ends within one of its records")
        }
    }
}

/// An error in a zip archive. Two errors are equal if their codes are equal.
public struct ZipError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        /// The archive has fewer bytes than its records specify, or it has no end record.
        case truncated = "truncated-archive"
        /// A record is malformed, two records contradict each other, entries overlap or have gaps, two entries have the same name, or there
        /// is a comment.
        case malformed = "malformed-archive"
        /// otaflash does not support a feature of the archive: encryption, a compression method other than "stored" and "deflated", several
        /// parts, the 64-bit format (ZIP64), or a second name of an entry.
        case unsupported = "unsupported-archive"
        /// The archive has more entries than `maximumEntries`, or the sum of their unpacked sizes is above `maximumLength`.
        case tooLarge = "archive-too-large"
        /// The CRC-32 of an entry is wrong, or the entry cannot be unpacked.
        case damaged = "damaged-archive"
    }

    public let code: Code
    /// A description of the error for the user, without a full stop.
    public let context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: ZipError, right: ZipError) -> Bool { left.code == right.code }
}

/// A decompressor for DEFLATE (RFC 1951) that uses zlib.
private enum Inflater {
    /// Unpacks the DEFLATE stream `packed` and returns the unpacked bytes.
    ///
    /// Returns nil if the stream is malformed, ends before the end of `packed`, or does not unpack to exactly `count` bytes. zlib never
    /// writes more than `count` bytes to the buffer.
    static func inflate(_ packed: ArraySlice<UInt8>, to count: Int) -> [UInt8]? {
        guard let available = UInt32(exactly: packed.count), let wanted = UInt32(exactly: count) else { return nil }
        var stream = z_stream()
        // A negative window size selects a raw DEFLATE stream without a zlib header.
        let begun = inflateInit2_(&stream, -MAX_WBITS, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        guard begun == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var isWhole = false
        // zlib requires an output buffer even if `count` is 0.
        let bytes = [UInt8](unsafeUninitializedCapacity: max(count, 1)) { output, initialized in
            isWhole = packed.withUnsafeBufferPointer { input in
                // The C type of `next_in` is a mutable pointer, but zlib does not write to its input.
                stream.next_in = UnsafeMutablePointer(mutating: input.baseAddress)
                stream.avail_in = available
                stream.next_out = output.baseAddress
                stream.avail_out = wanted
                return CZlib.inflate(&stream, Z_FINISH) == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0
            }
            initialized = isWhole ? count : 0
        }
        return isWhole ? bytes : nil
    }
}
