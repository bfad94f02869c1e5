import OTAArchive
import OTAClient
import OTAFirmware
import OTASMP
import OTASigning

/// Reads the input as an archive, and also as the deflated bytes of one entry. Two bytes before those are the entry's size.
enum ZipFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let finding = finding(in: bytes) { return finding }
        var input = FuzzInput(bytes)
        let size = Int(input.next()) << 8 | Int(input.next())
        let packed = input.bytes(upTo: bytes.count)
        let archive = FuzzArchive.bytes([FuzzArchive.File(name: "entry", method: 8, size: size, packed: packed)])
        guard (try? ZipArchive(archive))?.entries.count == 1 else { return "a well-formed archive is refused" }
        return finding(in: archive)
    }

    private static func finding(in bytes: [UInt8]) -> String? {
        guard let archive = try? ZipArchive(bytes) else { return nil }
        guard archive.entries.count <= ZipArchive.maximumEntries else {
            return "an archive with too many entries is accepted"
        }
        guard archive.entries.reduce(0, { $0 + $1.size }) <= ZipArchive.maximumLength else {
            return "an archive with too many bytes is accepted"
        }
        for entry in archive.entries {
            guard archive[entry.name] == entry else { return "the archive has two entries \(entry.name)" }
            guard let contents = try? archive.contents(of: entry) else { continue }
            if contents.count != entry.size { return "an entry has \(contents.count) bytes instead of \(entry.size)" }
        }
        return nil
    }
}

/// Reads the input as the manifest of a package for Device Manager, in an archive with one image and in one with two images.
///
/// The images of an accepted package must be in the archive and must have different numbers.
enum PackageFuzz {
    private static let release = try? SMPRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "the release cannot be made" }
        let images = release.images.map { FuzzArchive.File(name: "\($0.number).bin", packed: $0.verified.bytes) }
        let manifest = FuzzArchive.File(name: "manifest.json", packed: bytes)
        // The manifest must list all files of the archive.
        for count in 1...2 {
            let archive = FuzzArchive.bytes([manifest] + images.prefix(count))
            guard let files = try? ImagePackage.images(in: archive) else { continue }
            guard files.count == count else { return "a package with \(count) images has \(files.count)" }
            guard Set(files.map(\.number)).count == files.count else { return "two images have the same number" }
            guard files.allSatisfy({ ["0.bin", "1.bin"].contains($0.name) }) else {
                return "an image is not in the archive"
            }
        }
        return nil
    }
}

/// Builds well-formed archives, so that the fuzzer also reaches the decoders of their entries.
enum FuzzArchive {
    struct File {
        var name: String
        /// 0 is stored, 8 is deflated.
        var method: UInt16 = 0
        /// The unpacked size in bytes; nil if it is the packed size.
        var size: Int?
        var packed: [UInt8]
    }

    /// Returns an archive with these files. The CRC-32 is that of the packed bytes, so it is correct only for stored files.
    static func bytes(_ files: [File]) -> [UInt8] {
        var archive = ByteWriter()
        var directory = ByteWriter()
        for file in files {
            let offset = archive.bytes.count
            archive.write(0x0403_4B50 as UInt32)
            describe(file, &archive)
            archive.write(Array(file.name.utf8))
            archive.write(file.packed)
            directory.write(0x0201_4B50 as UInt32)
            directory.write(20 as UInt16)
            describe(file, &directory)
            // The entry has no comment, disk number 0 and no attributes.
            directory.writeZeros(10)
            directory.write(UInt32(clamping: offset))
            directory.write(Array(file.name.utf8))
        }
        let start = archive.bytes.count
        archive.write(directory.bytes)
        archive.write(0x0605_4B50 as UInt32)
        archive.writeZeros(4)
        archive.write(UInt16(clamping: files.count))
        archive.write(UInt16(clamping: files.count))
        archive.write(UInt32(clamping: directory.bytes.count))
        archive.write(UInt32(clamping: start))
        archive.writeZeros(2)
        return archive.bytes
    }

    /// Writes the fields that are in the local header and in the directory.
    private static func describe(_ file: File, _ writer: inout ByteWriter) {
        writer.write(20 as UInt16)
        writer.write(0 as UInt16)
        writer.write(file.method)
        writer.writeZeros(4)
        writer.write(CRC32.checksum(of: file.packed))
        writer.write(UInt32(clamping: file.packed.count))
        writer.write(UInt32(clamping: file.size ?? file.packed.count))
        writer.write(UInt16(clamping: file.name.utf8.count))
        writer.write(0 as UInt16)
    }
}
