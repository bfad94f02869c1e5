import OTAFirmware
import OTASigning
import Testing
import UARTProtocol

@Suite("UART: messages")
struct MessageTests {
    private static let digest = SHA256.digest(of: Array("abc".utf8))

    @Test(
        "each message is parsed to the same message",
        arguments: [
            .hello(version: 1, conversation: 0xFEDC_BA98_7654_3210, received: .max),
            .helloAck(version: 1, conversation: 0xFEDC_BA98_7654_3210, toggle: true, received: 7), .text(""),
            .text("Grüße 👋"), .toggle(false),
            .getImage(offset: 0, nil), .getImage(offset: 0xFEDC_BA98, digest),
            .image(size: 204_800, offset: 4, digest), .imageData([]), .imageData([1, 0, 255]), .refusal(.noImage),
        ] as [Message])
    func roundTrip(message: Message) throws {
        #expect(try Message(bytes: message.bytes) == message)
    }

    @Test("numbers are little-endian, and a digest follows them")
    func layout() {
        #expect(
            Message.image(size: 0x0102_0304, offset: 5, Self.digest).bytes.prefix(11) == [
                6, 4, 3, 2, 1, 5, 0, 0, 0, 0xBA, 0x78,
            ])
        #expect(
            Message.hello(version: 1, conversation: 0x0102_0304_0506_0708, received: 9).bytes == [
                1, 1, 8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0,
            ])
        #expect(
            Message.helloAck(version: 1, conversation: 0x0102_0304_0506_0708, toggle: true, received: 0x0102).bytes == [
                2, 1, 8, 7, 6, 5, 4, 3, 2, 1, 1, 2, 1, 0, 0,
            ])
    }

    @Test("a message with a wrong length, a wrong value, invalid UTF-8 or an unknown kind is refused")
    func malformed() {
        let values: [[UInt8]] = [
            [], [0], [9], [1], [1, 1, 1], [2, 1, 1], [2, 1, 1, 0, 0, 0, 0],
            [2, 1] + [UInt8](repeating: 0, count: 8) + [2, 0, 0, 0, 0], [3, 0xC3], [3, 0xED, 0xA0, 0x80], [4],
            [4, 2],
            [5, 0, 0, 0],
            [5] + [UInt8](repeating: 0, count: 35), [6] + [UInt8](repeating: 0, count: 39), [8], [8, 1, 1],
        ]
        for value in values { #expect(throws: Refusal.malformed) { try Message(bytes: value) } }
    }

    @Test("an unknown reason of a refusal is read as malformed")
    func unknownRefusal() throws {
        #expect(try Message(bytes: [8, 200]) == .refusal(.malformed))
    }
}

@Suite("UART: generated images")
struct PNGTests {
    @Test(
        "a generated image has exactly the requested size, and is a PNG",
        arguments: [1024, 1025, 1500, 65_536, 70_000, 204_800])
    func size(size: Int) {
        let image = PNG.generate(size: size)
        #expect(image.count == size && PNG.isSupported(image))
        #expect(
            image.prefix(16) == [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52])
        // Each PNG ends with this chunk (PNG specification, 11.2.5).
        #expect(image.suffix(12) == [0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82])
    }

    @Test("other data and other sizes are not supported")
    func unsupported() {
        #expect(!PNG.isSupported([UInt8](repeating: 0, count: 2000)))
        #expect(!PNG.isSupported(Array(PNG.generate(size: 1024).dropLast())))
        #expect(!PNG.isSupported(PNG.generate(size: 204_801)))
    }
}
