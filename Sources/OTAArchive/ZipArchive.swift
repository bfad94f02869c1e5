internal import CZlib
internal import OTAFirmware

/// A zip archive in memory (PKWARE APPNOTE 6.3.10), read strictly: what another reader might take for something else is
/// refused. Names are only compared, no path is ever opened, and nothing is unpacked that was not asked for.
public struct ZipArchive: Sendable {
    /// What is read at most: entries, and bytes of all of them unpacked.
    public static let maximumEntries = 256
    public static let maximumLength = 256 << 20

    /// In the directory's order.
    public let entries: [ZipEntry]
    private let bytes: [UInt8]

    /// Reads the directory.
    ///
    /// - Throws: `truncated-archive`, `malformed-archive`, `unsupported-archive`, `archive-too-large`.
    public init(_ bytes: [UInt8]) throws(ZipError) {
        let end = try ZipEndRecord(in: bytes)
        var reader = ByteReader(bytes[end.directory], offset: end.directory.lowerBound)
        var entries: [ZipEntry] = []
        for _ in 0..<end.entryCount { entries.append(try Self.reading { () throws in try ZipEntry(from: &reader) }) }
        guard reader.remaining == 0 else {
            throw ZipError(.malformed, "\(reader.remaining) bytes more in its directory than the entries take")
        }
        self.bytes = bytes
        self.entries = try Self.located(entries, in: bytes, before: end.directory.lowerBound)
        try checkSizes()
    }

    /// The entry of this name.
    public subscript(name: String) -> ZipEntry? { entries.first { $0.name == name } }

    /// The bytes of an entry, unpacked.
    ///
    /// - Throws: `damaged-archive`.
    public func contents(of entry: ZipEntry) throws(ZipError) -> [UInt8] {
        let packed = bytes[entry.packed]
        let contents: [UInt8]
        switch entry.method {
        case .stored: contents = Array(packed)
        case .deflated:
            guard let inflated = Inflater.inflate(packed, to: entry.size) else {
                throw ZipError(
                    .damaged, "\(entry.name) cannot be unpacked to the \(entry.size) bytes that it should have")
            }
            contents = inflated
        }
        guard CRC32.checksum(of: contents) == entry.checksum else {
            throw ZipError(.damaged, "\(entry.name) does not have the CRC-32 that it should have")
        }
        return contents
    }

    private func checkSizes() throws(ZipError) {
        guard Set(entries.map(\.name)).count == entries.count else {
            throw ZipError(.malformed, "two entries have one name")
        }
        // Sizes are below 2^32 and there are few: the sum fits.
        guard entries.reduce(0, { $0 + $1.size }) <= Self.maximumLength else {
            throw ZipError(.tooLarge, "it unpacks to more than the \(Self.maximumLength >> 20) MiB that are read")
        }
    }

    /// The entries with where their bytes are: between the local headers, which have to say the same as the directory.
    private static func located(
        _ entries: [ZipEntry], in bytes: [UInt8], before directory: Int
    ) throws(ZipError) -> [ZipEntry] {
        var located: [ZipEntry] = []
        for var entry in entries {
            guard entry.headerOffset < directory else {
                throw ZipError(.malformed, "\(entry.name) lies behind the archive's directory")
            }
            var reader = ByteReader(bytes[entry.headerOffset..<directory], offset: entry.headerOffset)
            try reading { () throws in try entry.locate(with: &reader) }
            located.append(entry)
        }
        let inOrder = located.sorted { $0.headerOffset < $1.headerOffset }
        for (first, second) in zip(inOrder, inOrder.dropFirst()) where first.packed.upperBound > second.headerOffset {
            throw ZipError(.malformed, "\(first.name) and \(second.name) overlap")
        }
        return located
    }

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

/// Why an archive cannot be read. Two errors are equal when their codes are.
public struct ZipError: Error, Sendable, Equatable {
    public enum Code: String, Sendable, CaseIterable {
        /// The bytes end before what its records announce, or it has no end record.
        case truncated = "truncated-archive"
        /// Its records contradict each other, or overlap.
        case malformed = "malformed-archive"
        /// Encrypted, in several parts, larger than 4 GiB, or packed in another way than stored or deflated.
        case unsupported = "unsupported-archive"
        /// More entries or bytes than are unpacked.
        case tooLarge = "archive-too-large"
        /// An entry is not what its CRC-32 says, or cannot be unpacked.
        case damaged = "damaged-archive"
    }

    public let code: Code
    /// For people: what was seen, without a full stop.
    public let context: String

    public init(_ code: Code, _ context: String) {
        self.code = code
        self.context = context
    }

    public static func == (left: ZipError, right: ZipError) -> Bool { left.code == right.code }
}

/// DEFLATE (RFC 1951), by zlib.
private enum Inflater {
    /// Exactly `count` bytes of exactly this stream; nil where it has more, fewer, or is none. No more than `count` bytes
    /// are ever written.
    static func inflate(_ packed: ArraySlice<UInt8>, to count: Int) -> [UInt8]? {
        guard let available = UInt32(exactly: packed.count), let wanted = UInt32(exactly: count) else { return nil }
        var stream = z_stream()
        // Negative: without zlib's own header.
        let begun = inflateInit2_(&stream, -MAX_WBITS, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        guard begun == Z_OK else { return nil }
        defer { inflateEnd(&stream) }
        var isWhole = false
        // One byte at least, as zlib asks for a place to write to.
        let bytes = [UInt8](unsafeUninitializedCapacity: max(count, 1)) { output, initialized in
            isWhole = packed.withUnsafeBufferPointer { input in
                // zlib does not write to its input.
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
