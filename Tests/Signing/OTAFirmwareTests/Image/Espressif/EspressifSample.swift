import OTAFirmware

/// ESP-IDF images in the format of esptool 5.6.0.
enum EspressifSample {
    /// An image of esptool.
    ///
    /// The source is assembly with an application description at 0x3c000020 and `_start: j _start; nop; nop; nop` at 0x40380000.
    /// It was linked with `riscv64-unknown-elf-gcc -march=rv32imc`. Then `esptool --chip esp32c3 elf2image --flash-mode dio
    /// --flash-freq 80m --flash-size 4MB --elf-sha256-offset 0xb0` created the image. `esptool image-info` reports a valid checksum
    /// and a valid hash.
    static func image() throws -> [UInt8] {
        try hex(
            """
            e902022f00003840ee0000000500000000ffff00000000012000003c00010000
            3254cdab07000000000000000000000076312e322e332d342d67616263646566
            3000000000000000000000000000000064656d6f2d6465766963650000000000
            0000000000000000000000000000000031323a33343a35360000000000000000
            4a616e2020312032303236000000000076352e352e3100000000000000000000
            0000000000000000000000000000000011db6d96a889088d353f4a918a0476e7
            066b0751cd7c7ebd9d7394b6cd62ef1f0000ffff100000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            0000000000000000000000000000000000000000000000000000000000000000
            000038400800000001a0010001000100000000000000000000000000000000df
            884505de0daa1edd65d2f9b96c17e4340c7210da175be78d1efb833fb77272e5
            """)
    }

    /// Returns an image with any segments. It is created without esptool, so that unusual images can be tested.
    static func image(segments: [[UInt8]], chip: UInt16 = 5, hasDigest: Bool = true) -> [UInt8] {
        var writer = ByteWriter()
        writer.write([0xE9, UInt8(segments.count), 2, 0x2F])
        writer.write(UInt32(0x4038_0000))
        writer.write([0xEE, 0, 0, 0])
        writer.write(chip)
        writer.write([0, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0, hasDigest ? 1 : 0])
        for segment in segments {
            writer.write(UInt32(0x4038_0000))
            writer.write(UInt32(segment.count))
            writer.write(segment)
        }
        writer.writeZeros(15 - writer.bytes.count % 16)
        writer.write(segments.joined().reduce(0xEF, ^))
        if hasDigest { writer.write(sha256(writer.bytes).bytes) }
        return writer.bytes
    }

    /// A sector that `espsecure sign-data --version 2` appends, but without the signature.
    static let signatureSector = [0xE7, 0x03, 0, 0] + [UInt8](repeating: 0xFF, count: 4092)
}
