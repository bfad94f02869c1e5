import OTAEncoding
import OTAFirmware
import OTATestSupport
import OTAUpdate
import Subprocess
import SystemPackage
import Testing

@Suite("Encoded images") struct ImageEncoderTests {
    /// Two releases of a small firmware: 96 KiB with repetitions, as in machine code, and the same bytes with changes, insertions and a
    /// removed part.
    private static let (old, new): ([UInt8], [UInt8]) = {
        var random = SplitMix64(seed: 16)
        let words = (0..<512).map { _ in random.bytes(Int.random(in: 2...24, using: &random)) }
        var old: [UInt8] = []
        while old.count < 96 << 10 {
            old += words[Int.random(in: words.indices, using: &random)]
            if Int.random(in: 0..<4, using: &random) == 0 { old += random.bytes(3) }
        }
        var new = old
        for _ in 0..<40 { new[Int.random(in: new.indices, using: &random)] ^= 0x55 }
        new.insert(contentsOf: random.bytes(700), at: 30_000)
        new.removeSubrange(50_000..<50_900)
        return (old, new)
    }()

    /// Decodes a stream with the program xz.
    ///
    /// xz cannot start with a dictionary. Therefore the dictionary is in front of the stream, in chunks that are not compressed.
    private static func decodedByXZ(_ encoded: EncodedImage, dictionary: [UInt8]) async throws -> [UInt8] {
        var stream: [UInt8] = []
        for start in stride(from: 0, to: dictionary.count, by: 1 << 16) {
            let piece = dictionary[start..<min(start + 1 << 16, dictionary.count)]
            stream += [start == 0 ? 1 : 2, UInt8((piece.count - 1) >> 8), UInt8((piece.count - 1) & 0xFF)] + piece
        }
        stream += encoded.bytes + [0]
        let xz = try await Command.run(
            "xz", ["--format=raw", "--lzma2=lc=0,lp=0,pb=0,dict=32MiB", "--decompress", "--stdout"], input: stream)
        try #require(xz.succeeded, "\(xz.errorText)")
        return Array(xz.output.dropFirst(dictionary.count))
    }

    private static let offsets = [0, 1, 4095, 4096, 4097, new.count - 1, new.count]

    @Test("xz decodes a delta from each offset to the rest of the image", arguments: offsets)
    func delta(offset: Int) async throws {
        let encoded = try ImageEncoder.encode(Self.new, from: offset, base: Self.old)
        let dictionary = Self.old + Self.new[..<offset]
        #expect(try await Self.decodedByXZ(encoded, dictionary: dictionary) == Array(Self.new[offset...]))
    }

    @Test("xz decodes an image without a base from each offset to the rest of the image", arguments: offsets)
    func compressed(offset: Int) async throws {
        let encoded = try ImageEncoder.encode(Self.new, from: offset, base: [])
        let dictionary = Array(Self.new[..<offset])
        #expect(try await Self.decodedByXZ(encoded, dictionary: dictionary) == Array(Self.new[offset...]))
    }

    @Test(
        "xz decodes the encoded sample firmware, in both directions and from each offset",
        arguments: [
            ("acme-thermostat-1.0.0.bin", "acme-thermostat-1.1.0.bin"),
            ("acme-beacon-1.0.0.mcuboot.bin", "acme-beacon-1.1.0.mcuboot.bin"),
            ("acme-gateway-1.0.0.bin", "acme-gateway-1.1.0.bin"),
        ])
    func samples(names: (old: String, new: String)) async throws {
        let (old, new) = (try Repository.sample(names.old), try Repository.sample(names.new))
        for (base, image) in [(old, new), (new, old)] {
            for offset in [0, 1, 4095, 4096, 4097, image.count - 1, image.count] {
                let encoded = try ImageEncoder.encode(image, from: offset, base: base)
                let decoded = try await Self.decodedByXZ(encoded, dictionary: base + image[..<offset])
                #expect(decoded == Array(image[offset...]))
            }
        }
    }

    @Test(
        "the sample gateway needs at most the expected part of its bytes",
        arguments: [
            ("acme-gateway-1.0.0.bin", "acme-gateway-1.0.1.bin", 3.0),
            ("acme-gateway-1.0.0.bin", "acme-gateway-1.1.0.bin", 15.0),
            ("acme-gateway-1.0.0.bin", "acme-gateway-1.0.0.bin", 0.3), (nil, "acme-gateway-1.0.0.bin", 63.0),
        ])
    func gateway(base: String?, image: String, percent: Double) throws {
        let bytes = try Repository.sample(image)
        let encoded = try ImageEncoder.encode(bytes, from: 0, base: base.map(Repository.sample) ?? [])
        #expect(Double(encoded.bytes.count) / Double(bytes.count) * 100 <= percent)
    }

    @Test("each chunk has at most 16384 image bytes, and the chunks end with the image", arguments: offsets)
    func chunks(offset: Int) throws {
        for base in [Self.old, []] {
            let encoded = try ImageEncoder.encode(Self.new, from: offset, base: base)
            let starts = [offset] + encoded.chunks.map(\.imageEnd)
            #expect(zip(starts, starts.dropFirst()).allSatisfy { (1...16384).contains($1 - $0) })
            #expect(starts.last == Self.new.count && (encoded.chunks.last?.streamEnd ?? 0) == encoded.bytes.count)
            #expect(encoded.offset == offset)
        }
    }

    @Test("xz decodes the stream up to the end of each chunk to the image up to this end")
    func chunkEnds() async throws {
        let encoded = try ImageEncoder.encode(Self.new, from: 5000, base: Self.old)
        #expect(encoded.chunks.count == (Self.new.count - 5000 + 16383) / 16384)
        for (index, chunk) in encoded.chunks.enumerated() {
            let part = EncodedImage(
                offset: 5000, bytes: Array(encoded.bytes[..<chunk.streamEnd]), chunks: Array(encoded.chunks[...index]))
            let decoded = try await Self.decodedByXZ(part, dictionary: Self.old + Self.new[..<5000])
            #expect(decoded == Array(Self.new[5000..<chunk.imageEnd]))
        }
    }

    @Test("random bytes grow by at most 3 bytes per chunk of 16384 bytes")
    func incompressible() async throws {
        var random = SplitMix64(seed: 3)
        let image = random.bytes(40_000)
        let encoded = try ImageEncoder.encode(image, from: 0, base: [])
        #expect(encoded.bytes.count == image.count + 9)
        #expect(encoded.chunks.map(\.imageEnd) == [16384, 32768, 40_000])
        #expect(try await Self.decodedByXZ(encoded, dictionary: []) == image)
    }

    @Test("compressible bytes after random bytes are decoded, without and with a base")
    func mixed() async throws {
        var random = SplitMix64(seed: 4)
        let image = random.bytes(20_000) + Self.old.prefix(20_000) + random.bytes(20_000)
        for base in [[], Self.old] {
            let encoded = try ImageEncoder.encode(image, from: 0, base: base)
            #expect(try await Self.decodedByXZ(encoded, dictionary: base) == image)
        }
    }

    @Test("an image and a base with 16 MiB are encoded; one byte more is refused")
    func limits() async throws {
        let largest = [UInt8](repeating: 0xFF, count: 16 << 20)
        let encoded = try ImageEncoder.encode(largest, from: 0, base: largest)
        #expect(encoded.chunks.count == 1024)
        #expect(throws: EncodingFailure.tooLarge) { try ImageEncoder.encode(largest + [0], from: 0, base: []) }
        #expect(throws: EncodingFailure.tooLarge) { try ImageEncoder.encode([0], from: 0, base: largest + [0]) }
    }

    @Test("the properties of the first chunk are 0: lc = lp = pb = 0, as every device requires")
    func properties() throws {
        for base in [Self.old, []] {
            let stream = try ImageEncoder.encode(Self.new, from: 0, base: base).bytes
            // The byte with the properties follows the control byte and the two sizes.
            #expect(stream[0] >= 0xC0 && stream[5] == 0)
        }
    }

    @Test("the encoder stops when its task is cancelled")
    func cancelled() async {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try ImageEncoder.encode(Self.new, from: 0, base: Self.old)
        }
        await #expect(throws: EncodingFailure.notDecoded(context: "the push has ended")) { try await task.value }
    }

    @Test("an offset outside the image is an error", arguments: [-1, 4])
    func badOffset(offset: Int) {
        #expect(throws: EncodingFailure.self) { try ImageEncoder.encode([1, 2, 3], from: offset, base: []) }
    }
}
