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
