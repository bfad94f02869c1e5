import COTADevice
import Testing

/// Counts operations in place of time: no Data value may occupy the device for long.
@Suite("Work for a Data value of an encoded image") struct EncodedWorkTests {
    /// The maximum number of plain bytes of a value: two chunks.
    static let largest = 2 * 16384

    /// Writes a value, and checks the work that it caused.
    private func write(_ bench: Bench, _ sequence: UInt16, _ value: ArraySlice<UInt8>) -> Int {
        let (held, flash) = (bench.device.pointee.held_offset, bench.flash)
        bench.write(data: little(sequence) + value)
        let plain = Int(bench.device.pointee.held_offset) - Int(held)
        let pages = plain / bench.flash.pageSize + 1
        #expect(plain <= Self.largest)
        // A page is erased and written, with a record before the erase and one after the write. A record can erase a record page.
        #expect(bench.flash.operations.count - flash.operations.count <= 6 * pages)
        // A literal reads at most one byte, for its probabilities. A match reads each of its bytes once. The core reads each record back.
        #expect(bench.flash.readCount - flash.readCount <= plain + pages)
        #expect(bench.flash.readByteCount - flash.readByteCount <= plain + 64 * pages)
        return plain
    }

    @Test("two chunks of 16384 bytes in one value are the most work, and each plain byte costs at most one read")
    func mostWork() throws {
        let image = [UInt8](repeating: 7, count: 2 * 16384)
        let bench = try encodedBench(image) { $0.wearMinutes = 255 }
        let position = try #require(bench.beginEncoded())
        // A distance of one page reads each byte from flash, one after the other.
        let symbols: [LZMA2Writer.Symbol] =
            [.literal(7), .match(distance: 1, length: 273), .match(distance: 257, length: 2)]
            + [LZMA2Writer.Symbol](repeating: .short, count: 16384 - 276)
        var writer = LZMA2Writer()
        let first = LZMA2Writer.chunk(writer.encode(symbols), plain: 16384)
        let second = LZMA2Writer.chunk(writer.encode(symbols), plain: 16384, control: 0xA0)
        // The first value ends in the first chunk. The second value has the rest of it, and a whole chunk.
        #expect(second.count + 30 <= 510)
        let before = write(bench, position.next, first.prefix(12))
        let plain = write(bench, position.next &+ 1, first.dropFirst(12) + second)
        #expect(before + plain == image.count)
        #expect(plain > Self.largest - 400)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("each value of a correct, a damaged or a random stream has bounded work", arguments: 0..<12)
    func bounded(_ seed: Int) throws {
        var generator = SeededGenerator(seed: UInt64(seed))
        let vector = EncodedVectors.all[seed % EncodedVectors.all.count]
        for round in 0..<20 {
            var stream = vector.stream
            if round > 0 {
                for _ in 0..<round {
                    stream[Int.random(in: 0..<stream.count, using: &generator)] = UInt8.random(
                        in: 0...255, using: &generator)
                }
            }
            let bench = try encodedBench(vector.image, holding: vector.from, base: vector.base)
            var sequence = try #require(bench.beginEncoded(base: vector.base)).next
            var rest = stream[...]
            while !rest.isEmpty {
                let size = Int.random(in: 1...90, using: &generator)
                _ = write(bench, sequence, rest.prefix(size))
                rest = rest.dropFirst(size)
                sequence &+= 1
            }
            #expect(bench.flash.violations == [])
        }
    }

    @Test("values of one byte make progress, and their work is bounded")
    func oneByteValues() throws {
        let vector = EncodedVectors.alone
        let bench = try encodedBench(vector.image, holding: vector.from)
        var sequence = try #require(bench.beginEncoded()).next
        for index in vector.stream.indices {
            _ = write(bench, sequence, vector.stream[index...index])
            sequence &+= 1
        }
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }
}
