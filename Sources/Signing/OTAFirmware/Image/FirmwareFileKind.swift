/// The type of a file, detected from its bytes. The file name has no effect.
public enum FirmwareFileKind: Sendable, Hashable {
    /// A file that has none of the types below, for example an ESP-IDF image or an MCUboot image.
    case binary
    /// Text with the bytes of an image. `HexImage` converts it to an image.
    case hexText(HexFormat)
    /// A signed bundle (`*.otaf`).
    case bundle
    /// An ELF file: linked code with symbols. `machine` is the field `e_machine` of the ELF header.
    case elf(machine: UInt16)
    /// A UF2 file: blocks for a USB bootloader (github.com/microsoft/uf2).
    case uf2
    /// A zip archive, for example a package for nRF Connect Device Manager or for Nordic DFU.
    case zip
    /// A PEM file: a key or a certificate as text.
    case pem
    /// Another file that is not firmware, such as an archive or a picture.
    case foreign(ForeignFile)

    /// The number of bytes that `detect(prefix:)` needs. If a file is shorter, `detect(prefix:)` needs all bytes of the file.
    public static let prefixLength = 4096

    /// The first bytes of a zip archive with at least one entry.
    static let zipMagic: [UInt8] = [0x50, 0x4B, 0x03, 0x04]

    /// Detects the type from all bytes of a file.
    ///
    /// In contrast to `detect(prefix:)`, this function also finds text, constant content, and a file of another type after padding.
    public static func detect(file: [UInt8]) -> FirmwareFileKind {
        let kind = detect(prefix: file)
        guard kind == .binary, ImageFormat.recognise(file) == .raw else { return kind }
        var content = RawContent()
        file.withUnsafeBytes { content.update($0) }
        return content.foreign.map { .foreign($0) } ?? .binary
    }

    /// Detects the type from the first `prefixLength` bytes of a file.
    public static func detect(prefix: some Collection<UInt8>) -> FirmwareFileKind {
        let bytes = Array(prefix.prefix(prefixLength))
        if bytes.starts(with: ManifestHeader.magic) { return .bundle }
        if bytes.starts(with: [0x7F] + "ELF".utf8) { return .elf(machine: machine(ofELF: bytes)) }
        if bytes.starts(with: [0x55, 0x46, 0x32, 0x0A, 0x57, 0x51, 0x5D, 0x9E]) { return .uf2 }
        if bytes.starts(with: zipMagic) { return .zip }
        if bytes.starts(with: "-----BEGIN ".utf8) { return .pem }
        if let format = HexFormat.detect(bytes) { return .hexText(format) }
        if let file = ForeignFile.detect(bytes) { return .foreign(file) }
        return .binary
    }

    /// Reads the field `e_machine` at offset 18 of an ELF header. The byte at offset 5 selects the byte order. Returns 0 for a shorter
    /// header.
    private static func machine(ofELF bytes: [UInt8]) -> UInt16 {
        var reader = ByteReader(bytes.dropFirst(18))
        let isBigEndian = bytes.count > 5 && bytes[5] == 2
        return (try? reader.read(UInt16.self, isBigEndian ? .bigEndian : .littleEndian)) ?? 0
    }
}

extension FirmwareFileKind {
    /// The error to throw if an image is required, but the file has this type. Nil for `binary`. For most types, the error's hint describes
    /// how to get an image from the file.
    package var refusal: ImageError? {
        switch self {
        case .binary: nil
        case .hexText(let format):
            Self.refusal(
                "\(format.name) text",
                "convert it to a binary: objcopy -I \(format.objcopyName) -O binary app.hex app.bin")
        case .bundle: Self.refusal("a signed bundle", nil)
        case .elf(let machine): Self.refusal("an ELF file", "convert it to an image: " + Self.conversion(machine))
        case .uf2:
            Self.refusal(
                "a UF2 file, which is for a USB bootloader",
                "copy it to the USB drive of the board; or give the binary from which it was made")
        case .pem:
            Self.refusal(
                "a key or a certificate",
                "give the image or the bundle as the argument; a private key is for sign --key FILE, a public key for --trust FILE"
            )
        case .zip: Self.refusal("a zip archive", "unpack it, and give the image in it")
        case .foreign(let file): Self.refusal(file.name, file.hint)
        }
    }

    private static func refusal(_ found: String, _ hint: String?) -> ImageError {
        ImageError(.notAnImage, offset: 0, expected: "a firmware image", found: found, hint: hint)
    }

    private static func conversion(_ machine: UInt16) -> String {
        let esptool = "esptool --chip esp32 elf2image app.elf (with the name of your chip)"
        return switch machine {
        case 40: "arm-none-eabi-objcopy -O binary app.elf app.bin"
        case 94: esptool
        case 243: "\(esptool); for a chip of another vendor: objcopy -O binary app.elf app.bin"
        default: "objcopy -O binary app.elf app.bin"
        }
    }
}
