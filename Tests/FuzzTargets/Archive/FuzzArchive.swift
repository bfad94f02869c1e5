import OTAFirmware

/// A well-formed archive, so that what lies in its entries is reached, too.
enum FuzzArchive {
    struct File {
        var name: String
        /// 0: stored; 8: deflated.
        var method: UInt16 = 0
        /// Unpacked, in bytes; nil: as many as are packed.
        var size: Int?
        var packed: [UInt8]
    }

    /// With the CRC-32 of the packed bytes, which is right where they are stored.
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
            // No comment, on disk 0, without attributes.
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

    /// The fields that an entry has in front of its bytes and in the directory.
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
