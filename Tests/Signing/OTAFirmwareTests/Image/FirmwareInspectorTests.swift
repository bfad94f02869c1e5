import OTAFirmware
import OTATestSupport
import OTAUpdate
import Testing

@Suite("Firmware inspector") struct FirmwareInspectorTests {
    @Test("bytes without a known magic are a raw image")
    func rawBytes() throws {
        for length in [1, 4, 19, 20, 21, 600] {
            let description = try inspect(Array(ExampleBundle.image.prefix(length)))
            #expect(description.format == .raw)
            #expect(Int(description.size) == length)
            #expect(description.versionText == nil && description.version == nil && description.product == nil)
            #expect(description.notes.isEmpty)
        }
        #expect(try inspect(ExampleBundle.image, inChunksOf: 7) == (try inspect(ExampleBundle.image)))
    }

    @Test("an empty file is refused")
    func anEmptyFileIsRefused() {
        #expect(refusal([])?.code == .emptyImage)
    }

    @Test("a damaged image with a known magic is not accepted as raw")
    func aDamagedImageDoesNotPassAsRaw() {
        #expect(refusal([0xE9])?.code == .truncatedImage)
        #expect(refusal([0x3D, 0xB8, 0xF3, 0x96])?.code == .truncatedImage)
        #expect(throws: Never.self) { try inspect([0x3D, 0xB8, 0xF3]) }
    }

    @Test("an image that does not have the requested format is refused")
    func theFormatCanBeGiven() throws {
        let espressif = try EspressifSample.image()
        #expect(try inspect(espressif, format: .espressif).format == .espressif)
        #expect(try inspect([0xE9, 0xFF], format: .raw).format == .raw)
        #expect(try inspect([0x7F] + Array("ELF".utf8), format: .raw).format == .raw)
        #expect(refusal(espressif, format: .mcuboot)?.code == .wrongImageFormat)
        #expect(refusal([1, 2, 3], format: .espressif)?.code == .wrongImageFormat)
    }

    @Test(
        "a file that is not an image is refused with a hint for the conversion",
        arguments: [
            (
                [0x7F, 0x45, 0x4C, 0x46, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 40, 0],
                "arm-none-eabi-objcopy -O binary"
            ),
            ([0x7F, 0x45, 0x4C, 0x46, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 94, 0], "elf2image"),
            ([0x7F, 0x45, 0x4C, 0x46, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 94], "elf2image"),
            ([0x7F, 0x45, 0x4C, 0x46, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 243, 0], "elf2image"),
            ([0x7F, 0x45, 0x4C, 0x46, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 243, 0], "objcopy"),
            ([0x7F, 0x45, 0x4C, 0x46], "objcopy -O binary app.elf app.bin"),
            (Array(":00000001FF\n".utf8), "objcopy -I ihex"), ([0x50, 0x4B, 3, 4, 0], "unpack"),
        ] as [([UInt8], String)])
    func whatIsNoImageIsToldHowToBecomeOne(bytes: [UInt8], hint: String) {
        let error = refusal(bytes)
        #expect(error?.code == .notAnImage)
        #expect(error?.hint?.contains(hint) == true, "\(error?.hint ?? "")")
    }

    @Test("the type of a file is detected from its first bytes")
    func kinds() throws {
        #expect(FirmwareFileKind.detect(prefix: try EspressifSample.image()) == .binary)
        #expect(FirmwareFileKind.detect(prefix: try ExampleBundle.bytes()) == .bundle)
        #expect(FirmwareFileKind.detect(prefix: []) == .binary)
        #expect(FirmwareFileKind.detect(prefix: ":020000040800F2".utf8) == .hexText(.intelHex))
        #expect(FirmwareFileKind.detect(prefix: ":0200000408".utf8) == .hexText(.intelHex))
        #expect(FirmwareFileKind.detect(prefix: ":020000040".utf8) == .binary)
        #expect(FirmwareFileKind.detect(prefix: "// x\n\n:020000040800F2".utf8) == .hexText(.intelHex))
        #expect(FirmwareFileKind.detect(prefix: [0xEF, 0xBB, 0xBF] + ":020000040800F2".utf8) == .hexText(.intelHex))
        #expect(FirmwareFileKind.detect(prefix: "S0030000FC".utf8) == .hexText(.sRecord))
        #expect(FirmwareFileKind.detect(prefix: "S0030000F".utf8) == .binary)
        #expect(FirmwareFileKind.detect(prefix: ":-) no hex, ".utf8) == .binary)
        #expect(FirmwareFileKind.detect(prefix: try hex("5546320a57515d9e00200000")) == .uf2)
        #expect(FirmwareFileKind.detect(prefix: [0x7F] + "ELF".utf8) == .elf(machine: 0))
        #expect(FirmwareFileKind.detect(prefix: "-----BEGIN PRIVATE KEY-----".utf8) == .pem)
    }

    @Test("a mutated image gives the same result in one block and in many blocks", arguments: [1, 2] as [UInt64])
    func mutations(seed: UInt64) throws {
        var generator = SplitMix64(seed: seed)
        let original = seed == 1 ? try EspressifSample.image() : try MCUbootSample.image()
        var taken = 0
        for _ in 0..<1000 {
            let bytes = generator.mutation(of: original + [0xFF, 0xFF])
            let whole = Result { try inspect(bytes) }
            let inChunks = Result { try inspect(bytes, inChunksOf: Int.random(in: 1...50, using: &generator)) }
            switch (whole, inChunks) {
            case (.success(let first), .success(let second)):
                #expect(first == second)
                taken += 1
            case (.failure(let first as ImageError), .failure(let second as ImageError)):
                #expect(first == second && first.offset == second.offset)
            default:
                Issue.record("whole: \(whole), in chunks: \(inChunks)")
            }
        }
        #expect((1..<1000).contains(taken))
    }
}
