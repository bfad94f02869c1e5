/// A file that is not firmware: its name for a message, and the next step for the user.
public struct ForeignFile: Sendable, Hashable {
    /// The type of the file with an article, such as `a gzip archive`.
    public let name: String
    /// The recommended next step; nil if there is no special recommendation.
    public let hint: String?

    init(_ name: String, _ hint: String? = nil) {
        self.name = name
        self.hint = hint
    }

    /// Returns the type of a file from its first bytes; nil if they contain no known magic number.
    static func detect(_ start: [UInt8]) -> ForeignFile? {
        for known in magics where start.dropFirst(known.offset).starts(with: known.bytes) { return known.file }
        return isUTF16(start)
            ? ForeignFile("UTF-16 text", "convert it: iconv -f UTF-16 -t ASCII app.hex > ascii.hex") : nil
    }

    static func constant(_ byte: UInt8, _ size: UInt64) -> ForeignFile {
        let flash = byte == 0xFF ? " (erased flash)" : ""
        return ForeignFile(
            "\(size) times the byte 0x\(Hex.encode([byte]))\(flash)",
            "the build or the read of the flash may have failed: create the image again")
    }

    /// The length of the DFU suffix in bytes (USB Device Class Specification for Device Firmware Upgrade 1.1, appendix B).
    static let dfuSuffixLength = 16

    /// - Parameter end: the last bytes of the file.
    static func dfuSuffix(_ end: [UInt8]) -> ForeignFile? {
        guard end.count == dfuSuffixLength, Array(end[8..<12]) == Array("UFD".utf8) + [16] else { return nil }
        return ForeignFile("a DFU file, which ends with a DFU suffix", "remove the suffix: dfu-suffix -D app.dfu")
    }

    /// Whether the file begins with the byte order mark of UTF-16 and with ASCII characters.
    private static func isUTF16(_ start: [UInt8]) -> Bool {
        guard start.count >= 4, start.starts(with: [0xFF, 0xFE]) || start.starts(with: [0xFE, 0xFF]) else {
            return false
        }
        let zeros = start[0] == 0xFF ? 1 : 0
        return start.dropFirst(2).prefix(16).enumerated().allSatisfy { ($0.element == 0) == ($0.offset & 1 == zeros) }
    }

    private struct Magic {
        let offset: Int
        let bytes: [UInt8]
        let file: ForeignFile

        init(_ bytes: [UInt8], at offset: Int = 0, _ name: String, _ hint: String? = nil) {
            self.offset = offset
            self.bytes = bytes
            file = ForeignFile(name, hint)
        }

        init(_ text: String, at offset: Int = 0, _ name: String, _ hint: String? = nil) {
            self.init(Array(text.utf8), at: offset, name, hint)
        }
    }

    private static let unpack = "unpack it, and give the image in it"

    /// The source of most values is the database of file(1), version 5.44. The source of the others is in a comment.
    private static let magics: [Magic] = [
        // Archives and compressed files.
        Magic([0x1F, 0x8B, 0x08], "a gzip file", "unpack it: gunzip app.bin.gz"),
        Magic([0xFD] + Array("7zXZ".utf8) + [0], "an xz file", "unpack it: unxz app.bin.xz"),
        Magic("1AY&SY", at: 4, "a bzip2 file", "unpack it: bunzip2 app.bin.bz2"),
        Magic([0x28, 0xB5, 0x2F, 0xFD], "a zstd file", "unpack it: unzstd app.bin.zst"),
        Magic([0x04, 0x22, 0x4D, 0x18], "an lz4 file", "unpack it: unlz4 app.bin.lz4"),
        Magic("LZIP", "an lzip file", "unpack it: lzip -d app.bin.lz"),
        Magic([0x5D, 0, 0, 0x80, 0], "an lzma file", "unpack it: unlzma app.bin.lzma"),
        Magic([0x1F, 0x9D, 0x90], "a file of the program compress", "unpack it: uncompress app.bin.Z"),
        Magic([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], "a 7z archive", unpack),
        Magic([0x52, 0x61, 0x72, 0x21, 0x1A, 0x07], "a RAR archive", unpack),
        Magic([0x50, 0x4B, 0x05, 0x06], "an empty zip archive", "create the archive again"),
        Magic([0x50, 0x4B, 0x07, 0x08], "a part of a zip archive", "join its parts, and unpack it"),
        Magic("ustar", at: 257, "a tar archive", "unpack it (tar -xf app.tar), and give the image in it"),
        Magic("!<arch>\n", "an ar archive, such as a static library", "link it, and give the linked binary"),
        Magic("070701", "a cpio archive", unpack), Magic("070707", "a cpio archive", unpack),
        Magic("MSCF", "a cabinet archive", unpack),
        Magic([0xED, 0xAB, 0xEE, 0xDB], "an RPM package", unpack),
        // Programs for other computers.
        Magic("MZ", "a program for Windows (PE)"),
        Magic([0xFE, 0xED, 0xFA, 0xCE], "a Mach-O file, which is for macOS"),
        Magic([0xFE, 0xED, 0xFA, 0xCF], "a Mach-O file, which is for macOS"),
        Magic([0xCE, 0xFA, 0xED, 0xFE], "a Mach-O file, which is for macOS"),
        Magic([0xCF, 0xFA, 0xED, 0xFE], "a Mach-O file, which is for macOS"),
        Magic([0xCA, 0xFE, 0xBA, 0xBE], "a Mach-O file or a Java class"),
        Magic([0, 0x61, 0x73, 0x6D, 1, 0, 0, 0], "a WebAssembly module"),
        Magic([0x42, 0x43, 0xC0, 0xDE], "LLVM bitcode", "link it, and give the linked binary"),
        // Pictures, sound and documents.
        Magic([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A], "a PNG picture"),
        Magic([0xFF, 0xD8, 0xFF], "a JPEG picture"),
        Magic("GIF87a", "a GIF picture"), Magic("GIF89a", "a GIF picture"),
        Magic([0x49, 0x49, 0x2A, 0], "a TIFF picture"), Magic([0x4D, 0x4D, 0, 0x2A], "a TIFF picture"),
        Magic("RIFF", "a RIFF file, such as a WebP picture or a WAVE sound"),
        Magic("OggS", "an Ogg file"), Magic("fLaC", "a FLAC sound"), Magic("ID3", "an MP3 sound"),
        Magic("ftyp", at: 4, "an MP4 file"),
        Magic("%PDF-", "a PDF document"),
        Magic([0xD0, 0xCF, 0x11, 0xE0, 0xA1, 0xB1, 0x1A, 0xE1], "a document of Microsoft Office"),
        // Data.
        Magic("SQLite format 3\0", "an SQLite database"),
        Magic([0xD4, 0xC3, 0xB2, 0xA1], "a network capture (pcap)"),
        Magic([0xA1, 0xB2, 0xC3, 0xD4], "a network capture (pcap)"),
        Magic([0x0A, 0x0D, 0x0D, 0x0A], "a network capture (pcapng)"),
        Magic([0x89] + Array("HDF\r\n".utf8) + [0x1A, 0x0A], "an HDF5 file"),
        // Firmware for other tools and bootloaders.
        // ST UM0391, "DfuSe file format specification".
        Magic(
            "DfuSe", "a DfuSe file, which is for a USB bootloader",
            "give the binary from which it was made; or send it with: dfu-util -D app.dfu"),
        // Silicon Labs UG103.6 (GBL) and UG266 (EBL).
        Magic(
            [0xEB, 0x17, 0xA6, 0x03], "a GBL file, which is for the Gecko bootloader",
            "send it with Silicon Labs' tools; or give the binary from which it was made"),
        // SUIT envelope: the CBOR tag 107 (draft-ietf-suit-manifest) and a map.
        Magic([0xD8, 0x6B, 0xA2], "a SUIT envelope", suit), Magic([0xD8, 0x6B, 0xA3], "a SUIT envelope", suit),
        Magic([0xD8, 0x6B, 0xA4], "a SUIT envelope", suit),
        // mcuboot, image.h: IMAGE_MAGIC and IMAGE_MAGIC_V1.
        Magic(
            [0x96, 0xF3, 0xB8, 0x3D], "an MCUboot image with a big-endian header",
            "create it again without --endian big of imgtool; otaflash supports only little-endian headers"),
        Magic(
            [0x96, 0xF3, 0xB8, 0x3C], "an MCUboot image with a big-endian header in the old format",
            "create it again with a current imgtool, without --endian big"),
        Magic(
            [0x3C, 0xB8, 0xF3, 0x96], "an MCUboot image in the old format (magic 0x96f3b83c)",
            "create it again with a current imgtool"),
    ]

    private static let suit = "send it with nRF Connect Device Manager; or give the image in it"
}
