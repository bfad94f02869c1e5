internal import OTAFirmware

/// The record at an archive's end (APPNOTE 4.3.16): where its directory is.
struct ZipEndRecord {
    private static let signature: [UInt8] = [0x50, 0x4B, 0x05, 0x06]
    private static let length = 22

    let entryCount: Int
    let directory: Range<Int>

    /// The one whose comment ends with the archive; a second one would leave open which is meant.
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
            throw ZipError(.unsupported, "it is in several parts, or in the 64-bit format")
        }
        guard counts.0 <= ZipArchive.maximumEntries else {
            throw ZipError(.tooLarge, "it has \(counts.0) entries; at most \(ZipArchive.maximumEntries) are read")
        }
        guard UInt64(offset) + UInt64(size) == start else {
            throw ZipError(.malformed, "its directory is not where its end record says")
        }
        entryCount = Int(counts.0)
        directory = Int(offset)..<start
    }
}
