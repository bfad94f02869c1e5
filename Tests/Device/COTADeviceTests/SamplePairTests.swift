import COTADevice
import OTAEncoding
import OTAFirmware
import OTATestSupport
import SystemPackage
import Testing

/// Encodes the sample firmware with liblzma, and decodes it with the device core. liblzma also decodes each stream (`ImageEncoder`).
@Suite("Encoded sample firmware") struct SamplePairTests {
    struct Pair: Sendable, CustomTestStringConvertible {
        var base: String?
        var image: String
        var testDescription: String { "\(base ?? "no base") to \(image)" }
    }

    static let pairs: [Pair] =
        [
            ("acme-beacon-1.0.0.mcuboot", "acme-beacon-1.1.0.mcuboot"),
            ("acme-thermostat-1.0.0", "acme-thermostat-1.1.0"),
            ("acme-gateway-1.0.0", "acme-gateway-1.0.1"), ("acme-gateway-1.0.0", "acme-gateway-1.1.0"),
        ].flatMap { [Pair(base: $0, image: $1), Pair(base: $1, image: $0)] }
        + ["acme-thermostat-1.1.0", "acme-gateway-1.1.0"].map { Pair(base: nil, image: $0) }

    static func read(_ name: String) throws -> [UInt8] { try Repository.sample(name + ".bin") }

    @Test(
        "the core decodes liblzma's stream of a sample from each offset: 0, 1, around a page, the last byte and the end",
        arguments: pairs)
    func everyOffset(_ pair: Pair) throws {
        let image = try Self.read(pair.image), base = try pair.base.map { try Self.read($0) } ?? []
        var generator = SeededGenerator(seed: UInt64(image.count))
        for offset in [0, 1, 4095, 4096, 4097, image.count - 1, image.count] {
            let encoded = try ImageEncoder.encode(image, from: offset, base: base)
            let bench = try encodedBench(image, holding: offset, base: base) {
                $0.pageSize = 4096
                $0.slotSize = 1 << 17
                $0.largestImage = 1 << 17
            }
            let position = try #require(bench.beginEncoded(base: base))
            #expect(position.offset == offset && position.crc == Crypto.crc32(Array(image.prefix(offset))))
            // Single bytes at two offsets, the longest values at two, and random sizes.
            let size =
                switch offset {
                case 1, image.count - 1: { 1 }
                case 0, 4096: { 510 }
                default: { Int.random(in: 1...200, using: &generator) }
                }
            bench.send(stream: encoded.bytes, at: position, size: size)
            #expect(bench.request(OTA_FINISH) == OTA_OK, "from \(offset)")
            #expect(bench.flash.slot.starts(with: image))
            #expect(bench.flash.violations == [])
        }
    }
}
