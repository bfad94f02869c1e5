/// What a file is, by its first bytes; what it is called does not matter.
public enum FirmwareFileKind: Sendable, Hashable {
    /// Taken as it is: an image of some format.
    case binary
    /// Text that `IntelHex` makes an image of.
    case intelHex
    /// A bundle of ours.
    case bundle
    /// Linked code with its symbols, for this machine (the ELF header's e_machine).
    case elf(machine: UInt16)
    /// Blocks for a USB bootloader (github.com/microsoft/uf2).
    case uf2
    /// An archive, such as a Nordic DFU package.
    case zip
    /// Text of a key or a certificate.
    case pem

    /// The bytes `detect(prefix:)` looks at, at most.
    public static let prefixLength = 20

    /// Fewer bytes than `prefixLength` are a file that ends there.
    public static func detect(prefix: some Collection<UInt8>) -> FirmwareFileKind {
        let bytes = Array(prefix.prefix(prefixLength))
        if bytes.starts(with: ManifestHeader.magic) { return .bundle }
        if bytes.starts(with: [0x7F] + "ELF".utf8) { return .elf(machine: machine(ofELF: bytes)) }
        if bytes.starts(with: [0x55, 0x46, 0x32, 0x0A, 0x57, 0x51, 0x5D, 0x9E]) { return .uf2 }
        if bytes.starts(with: [0x50, 0x4B, 0x03, 0x04]) { return .zip }
        if bytes.starts(with: "-----BEGIN ".utf8) { return .pem }
        // The shortest record: a colon, length, address, type and checksum.
        if bytes.first == UInt8(ascii: ":"), bytes.count >= 11,
            bytes[1..<11].allSatisfy({ Hex.value(ofDigit: $0) != nil })
        {
            return .intelHex
        }
        return .binary
    }

    /// The ELF header says in which byte order it is written.
    private static func machine(ofELF bytes: [UInt8]) -> UInt16 {
        var reader = ByteReader(bytes.dropFirst(18))
        let isBigEndian = bytes.count > 5 && bytes[5] == 2
        return (try? reader.read(UInt16.self, isBigEndian ? .bigEndian : .littleEndian)) ?? 0
    }
}

extension FirmwareFileKind {
    /// Nil for what can be read as an image; else why not, and what makes an image of it.
    package var refusal: ImageError? {
        switch self {
        case .binary: nil
        case .intelHex: Self.refusal("Intel HEX text", "make a binary of it: objcopy -I ihex -O binary app.hex app.bin")
        case .bundle: Self.refusal("a signed bundle", nil)
        case .elf(let machine): Self.refusal("an ELF file", "make an image of it: " + Self.conversion(machine))
        case .uf2: Self.refusal("a UF2 file", "give the binary it was made of")
        case .pem: Self.refusal("a key or a certificate", "give the image here, and the key by --key")
        case .zip: Self.refusal("a zip archive", "unpack it and give the image in it")
        }
    }

    private static func refusal(_ found: String, _ hint: String?) -> ImageError {
        ImageError(.notAnImage, offset: 0, expected: "a firmware image", found: found, hint: hint)
    }

    private static func conversion(_ machine: UInt16) -> String {
        let esptool = "esptool --chip esp32 elf2image app.elf (with your chip's name)"
        return switch machine {
        case 40: "arm-none-eabi-objcopy -O binary app.elf app.bin"
        case 94: esptool
        case 243: "\(esptool); for a chip that is not Espressif's: objcopy -O binary app.elf app.bin"
        default: "objcopy -O binary app.elf app.bin"
        }
    }
}
