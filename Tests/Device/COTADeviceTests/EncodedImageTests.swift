import COTADevice
import Testing

/// Returns the bench of a device that has accepted the envelope of `image`, and holds its first `count` bytes.
func encodedBench(
    _ image: [UInt8], holding count: Int = 0, base: [UInt8] = [], _ change: (inout Settings) -> Void = { _ in }
) throws -> Bench {
    var settings = Settings()
    settings.hasDecoder = true
    settings.base = base
    settings.slotSize = 32768
    settings.largestImage = 32768
    settings.longestData = 512
    change(&settings)
    let bench = Bench(settings)
    bench.boot()
    bench.connect()
    var release = BenchRelease()
    release.image = image
    try #require(bench.submit(release.envelope) == OTA_OK)
    let position = try #require(bench.begin(OTA_OBJECT_IMAGE, image))
    bench.send(image, at: position, upTo: count)
    return bench
}

@Suite("Encoded images") struct EncodedImageTests {
    @Test(
        "streams of liblzma decode to the image, in values of 1 byte, of 510 bytes and of random sizes",
        arguments: EncodedVectors.all)
    func vectors(_ vector: EncodedVectors.Vector) throws {
        for (pageSize, unit) in [(256, 1), (1024, 4), (32768, 16)] as [(UInt32, UInt8)] {
            var generator = SeededGenerator(seed: UInt64(pageSize))
            for size in [{ 1 }, { 510 }, { Int.random(in: 1...64, using: &generator) }] {
                let bench = try encodedBench(vector.image, holding: vector.from, base: vector.base) {
                    $0.pageSize = pageSize
                    $0.writeUnit = unit
                }
                let position = try #require(bench.beginEncoded(base: vector.base))
                #expect(position.offset == vector.from)
                #expect(position.crc == Crypto.crc32(Array(vector.image.prefix(vector.from))))
                let next = bench.send(stream: vector.stream, at: position, size: size)
                let stream = Position(next: next, offset: vector.stream.count, crc: Crypto.crc32(vector.stream))
                #expect(bench.sync(next) == stream)
                #expect(bench.request(OTA_FINISH) == OTA_OK)
                #expect(Array(bench.flash.slot.prefix(vector.image.count)) == vector.image)
                #expect(bench.flash.violations == [])
            }
        }
    }

    @Test("the test's writer of LZMA symbols produces a stream that liblzma decodes")
    func writer() {
        var writer = LZMA2Writer()
        let symbols: [LZMA2Writer.Symbol] =
            "abcdefgh".utf8.map { .literal($0) } + [
                .match(distance: 8, length: 4), .literal(0x7A, expected: 0x65), .short, .match(distance: 5, length: 20),
                .repeated(1, length: 3), .match(distance: 2, length: 2), .match(distance: 30, length: 273),
                .repeated(3, length: 5), .repeated(2, length: 2), .repeated(0, length: 9), .literal(0, expected: 100),
            ]
        // Checked with `lzma.decompress` of Python 3.11, which calls liblzma.
        #expect(writer.encode(symbols) == bytes("003099abc31820871ccbb96b07b84f554415171f062614e8b5a10000"))
    }
}
