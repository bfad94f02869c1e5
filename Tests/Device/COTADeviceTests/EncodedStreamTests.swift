import COTADevice
import Testing

@Suite("The stream of an encoded image") struct EncodedStreamTests {
    let base = Array(EncodedVectors.base.prefix(300))
    let image = Array(EncodedVectors.image.prefix(600))

    /// Sends values from a position on, until the object is no longer open. Returns the status in Progress.
    private func status(_ bench: Bench, _ values: [[UInt8]], at position: Position) -> UInt8? {
        for (i, value) in values.enumerated() { bench.write(data: little(position.next &+ UInt16(i)) + value) }
        return bench.progress?.status
    }

    /// Returns the status after the values, for a device that holds 10 bytes of the image.
    private func status(_ values: [[UInt8]], image: [UInt8]? = nil, base: [UInt8]? = nil) throws -> UInt8? {
        let bench = try encodedBench(image ?? self.image, holding: 10, base: base ?? self.base)
        let position = try #require(bench.beginEncoded(base: base ?? self.base))
        let status = status(bench, values, at: position)
        #expect(bench.flash.violations == [])
        guard status == UInt8(OTA_NOT_DECODED.rawValue) else { return status }
        // Progress reports the status once, the device accepts nothing more, and the image can be sent in another way.
        #expect(bench.state == OTA_STATE_ACCEPTED)
        #expect(bench.heard(OTA_PROGRESS).filter { $0.starts(with: [2, 19]) }.count == 1)
        bench.write(data: little(position.next &+ UInt16(values.count)) + [2, 0, 0, 1])
        #expect(bench.request(OTA_SYNC, [0, 0]) == OTA_BAD_STATE)
        let whole = image ?? self.image
        let plain = try #require(bench.begin(OTA_OBJECT_IMAGE, whole, from: 10))
        #expect(plain.offset <= 10)
        bench.send(whole, at: plain)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
        return status
    }

    private func encode(_ symbols: [LZMA2Writer.Symbol]) -> [UInt8] {
        var writer = LZMA2Writer()
        return writer.encode(symbols)
    }

    private let failed = UInt8(OTA_NOT_DECODED.rawValue)
    private let literals: [LZMA2Writer.Symbol] = [.literal(1), .literal(2), .literal(3)]

    @Test("unknown control bytes, and LZMA's end mark, are refused", arguments: [0x00, 0x03, 0x7F] as [UInt8])
    func control(_ control: UInt8) throws {
        #expect(try status([[control]]) == failed)
        #expect(try status([LZMA2Writer.copied([7]), [control]]) == failed)
        let mark = encode(literals + [.match(distance: 1 << 32, length: 2)])
        #expect(try status([LZMA2Writer.chunk(mark, plain: 5)]) == failed)
    }

    @Test("the first LZMA chunk, and the first after a reset of the dictionary, must have properties")
    func properties() throws {
        let encoded = encode(literals)
        for control in [0xC0, 0xE0] as [UInt8] {
            #expect(try status([LZMA2Writer.chunk(encoded, plain: 3, control: control)]) == 0)
        }
        for control in [0x80, 0xA0] as [UInt8] {
            let chunk = LZMA2Writer.chunk(encoded, plain: 3, control: control)
            #expect(try status([chunk]) == failed)
            #expect(
                try status([LZMA2Writer.chunk(encoded, plain: 3), LZMA2Writer.copied([1], control: 1), chunk]) == failed
            )
            #expect(
                try status([LZMA2Writer.chunk(encoded, plain: 3), LZMA2Writer.copied([1], control: 2), chunk]) != nil)
        }
        let again = LZMA2Writer.chunk(encoded, plain: 3, control: 0xA0)
        #expect(try status([LZMA2Writer.chunk(encoded, plain: 3), LZMA2Writer.copied([1]), again]) == 0)
        var other = LZMA2Writer.chunk(encoded, plain: 3)
        for byte in [1, 0x5D, 0xFF] as [UInt8] {
            other[5] = byte
            #expect(try status([other]) == failed)
        }
    }

    @Test("a chunk without a reset continues with the probabilities and the state of the chunk before it")
    func continuedChunk() throws {
        var writer = LZMA2Writer()
        let first = writer.encode([.literal(1), .literal(2), .match(distance: 2, length: 5)])
        let second = writer.encode([.literal(9, expected: 2), .short, .repeated(0, length: 2)], resetting: false)
        let bench = try encodedBench([1, 2, 1, 2, 1, 2, 1, 9, 1, 9, 1])
        let position = try #require(bench.beginEncoded())
        let values = [LZMA2Writer.chunk(first, plain: 7), LZMA2Writer.chunk(second, plain: 4, control: 0x80)]
        #expect(status(bench, values, at: position) == 0)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("a dictionary reset does not remove the base from the dictionary")
    func dictionaryReset() throws {
        let bench = try encodedBench(Array(base.prefix(20)), base: base)
        let position = try #require(bench.beginEncoded(base: base))
        let chunk = LZMA2Writer.chunk(encode([.match(distance: 300, length: 20)]), plain: 20, control: 0xE0)
        #expect(status(bench, [chunk], at: position) == 0)
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("a chunk of more than 16384 plain bytes is refused, and one of 16384 is accepted")
    func largestChunk() throws {
        let image = [UInt8](repeating: 7, count: 20000)
        func chunk(_ size: Int) -> [UInt8] {
            let matches = [LZMA2Writer.Symbol](repeating: .repeated(0, length: 273), count: (size - 1) / 273)
            let rest = (size - 1) % 273
            return LZMA2Writer.chunk(
                encode(
                    [.literal(7), .match(distance: 1, length: 273)] + matches.dropFirst() + [.repeated(0, length: rest)]
                ),
                plain: size)
        }
        #expect(try status([chunk(16384)], image: image) == 0)
        #expect(try status([chunk(16385)], image: image) == failed)
    }

    @Test("a chunk that is longer than the rest of the image is refused")
    func imageEnd() throws {
        for (count, expected) in [(590, 0), (591, failed)] as [(Int, UInt8)] {
            let copied = LZMA2Writer.copied([UInt8](repeating: 0, count: count))
            #expect(try status([Array(copied.prefix(510)), Array(copied.dropFirst(510))]) == expected)
            let symbols: [LZMA2Writer.Symbol] = [
                .literal(0), .match(distance: 1, length: 273), .repeated(0, length: 273),
                .repeated(0, length: count - 547),
            ]
            #expect(try status([LZMA2Writer.chunk(encode(symbols), plain: count)]) == expected)
        }
    }

    @Test("a distance beyond the dictionary is refused, and the whole dictionary can be used")
    func distances() throws {
        for (distance, expected) in [(310, 0), (311, failed), (1 << 31, failed)] as [(Int, UInt8)] {
            #expect(
                try status([LZMA2Writer.chunk(encode([.match(distance: distance, length: 2)]), plain: 2)]) == expected)
        }
        // Without a base, and with an empty image, no distance is valid.
        for symbol in [.short, .repeated(0, length: 2), .repeated(3, length: 2), .match(distance: 1, length: 2)]
            as [LZMA2Writer.Symbol]
        {
            let bench = try encodedBench(image)
            let position = try #require(bench.beginEncoded())
            #expect(status(bench, [LZMA2Writer.chunk(encode([symbol]), plain: 2)], at: position) == failed)
        }
    }

    @Test("a match that is longer than its chunk is refused")
    func matchBeyondChunk() throws {
        let encoded = encode([.literal(1), .match(distance: 1, length: 4)])
        #expect(try status([LZMA2Writer.chunk(encoded, plain: 5)]) == 0)
        #expect(try status([LZMA2Writer.chunk(encoded, plain: 4)]) == failed)
        // No byte of the match is stored, also at the end of the image.
        for count in [600, 14] {
            let bench = try encodedBench(Array(image.prefix(count)), holding: 10)
            let position = try #require(bench.beginEncoded())
            #expect(self.status(bench, [LZMA2Writer.chunk(encoded, plain: 4)], at: position) == failed)
            #expect(bench.device.pointee.held_offset == 11)
        }
    }

    @Test("a chunk must use its encoded bytes exactly, and end with code 0")
    func chunkEnd() throws {
        let encoded = encode(literals)
        #expect(try status([LZMA2Writer.chunk(encoded, plain: 3), LZMA2Writer.copied([9])]) == 0)
        let longer = LZMA2Writer.chunk(encoded + [2], plain: 3)
        #expect(try status([longer, LZMA2Writer.copied([9])]) == failed)
        // The extra byte is the control byte of a correct chunk.
        #expect(try status([Array(longer.dropLast()), [2, 0, 0, 9]]) == failed)
        #expect(
            try status([LZMA2Writer.chunk(Array(encoded.dropLast()), plain: 3), LZMA2Writer.copied([9])]) == failed)
        #expect(try status([LZMA2Writer.chunk(Array(encoded.prefix(4)), plain: 1)]) == failed)
        var wrong = encoded
        wrong[wrong.count - 1] ^= 1
        #expect(try status([LZMA2Writer.chunk(wrong, plain: 3)]) == failed)
        wrong = encoded
        wrong[0] = 1
        #expect(try status([LZMA2Writer.chunk(wrong, plain: 3)]) == failed)
    }

    @Test("a second chunk that begins in a Data value is refused, even if only its first byte is there")
    func oneChunkInAValue() throws {
        let one = LZMA2Writer.copied([1, 2]), two = LZMA2Writer.chunk(encode(literals), plain: 3)
        #expect(try status([one, two]) == 0)
        #expect(try status([one + two]) == failed)
        #expect(try status([one + two.prefix(1)]) == failed)
        #expect(try status([Array(two.prefix(4)), two.dropFirst(4) + one]) == 0)
        #expect(try status([Array(two.prefix(4)), two.dropFirst(4) + one + one]) == failed)
        #expect(try status([one + [], Array(one.prefix(1)), Array(one.dropFirst()) + one]) == 0)
    }

    @Test("bytes after the image's last byte are refused in the same value, and cause a rewind in a later value")
    func afterTheEnd() throws {
        let last = LZMA2Writer.copied(Array(image.suffix(20)))
        for value in [last, last + [2]] {
            let bench = try encodedBench(image, holding: 580)
            let position = try #require(bench.beginEncoded())
            #expect(status(bench, [value], at: position) == (value == last ? 0 : failed))
            guard value == last else { continue }
            bench.write(data: little(position.next &+ 1) + [2])
            let end = Position(next: position.next &+ 4097, offset: last.count, crc: Crypto.crc32(last))
            #expect(bench.progress?.position == end)
            #expect(bench.request(OTA_FINISH) == OTA_OK)
        }
    }

    @Test("FINISH is refused until the image is complete, even if the stream is longer than the image")
    func finish() throws {
        let bench = try encodedBench([UInt8](repeating: 0, count: 200))
        let position = try #require(bench.beginEncoded())
        let chunk = LZMA2Writer.copied([UInt8](repeating: 0, count: 199))
        #expect(status(bench, [chunk], at: position) == 0)
        #expect(bench.progress?.position?.offset == 202)
        #expect(bench.request(OTA_FINISH) == OTA_BAD_STATE)
        bench.write(data: little(position.next &+ 1) + LZMA2Writer.copied([0]))
        #expect(bench.request(OTA_FINISH) == OTA_OK)
    }

    @Test("FINISH is refused while the image is complete and the end of its last chunk is missing")
    func finishOfOpenChunk() throws {
        let image = [UInt8](repeating: 7, count: 2000)
        let bench = try encodedBench(image)
        var sequence = try #require(bench.beginEncoded()).next
        let matches = [LZMA2Writer.Symbol](repeating: .repeated(0, length: 273), count: 6)
        let symbols = [.literal(7), .match(distance: 1, length: 273)] + matches + [.repeated(0, length: 88)]
        // The header of the chunk announces 400 bytes more than the symbols have.
        var rest = LZMA2Writer.chunk(encode(symbols) + [UInt8](repeating: 0, count: 400), plain: 2000)[...]
        while bench.device.pointee.held_offset < 2000, let byte = rest.popFirst() {
            bench.write(data: little(sequence) + [byte])
            sequence &+= 1
        }
        let before = bench.progress?.position
        #expect(bench.device.pointee.held_offset == 2000 && !rest.isEmpty)
        let reads = bench.flash.readByteCount
        #expect(bench.write(control: [UInt8(OTA_FINISH.rawValue), 1]) == OTA_ATT_OK)
        _ = ota_device_poll(bench.device, bench.now)
        #expect(bench.progress?.position == before && bench.state == OTA_STATE_IMAGE)
        bench.write(data: little(sequence) + [1])
        bench.settle()
        #expect(bench.heard(OTA_CONTROL).last == [0x83, 1, UInt8(OTA_BAD_STATE.rawValue)])
        #expect(bench.flash.violations == [] && bench.flash.readByteCount - reads <= 2000)
    }

    @Test("positions after BEGIN count the bytes of the stream, and a lost value causes a rewind in the stream")
    func positions() throws {
        let vector = EncodedVectors.deltas[1]
        let bench = try encodedBench(vector.image, holding: 1, base: vector.base)
        let begin = try #require(bench.beginEncoded(base: vector.base))
        #expect((begin.offset, begin.crc) == (1, Crypto.crc32([vector.image[0]])))
        #expect(bench.progress?.position == Position(next: begin.next, offset: 0, crc: 0))
        let first = Array(vector.stream.prefix(100))
        bench.write(data: little(begin.next) + first)
        bench.write(data: little(begin.next &+ 2) + vector.stream[200..<300])
        let rewound = Position(next: begin.next &+ 4097, offset: 100, crc: Crypto.crc32(first))
        #expect(bench.progress?.position == rewound)
        #expect(bench.sync(rewound.next) == rewound)
    }

    @Test("a damaged stream never passes FINISH, and never misuses the flash", arguments: [0, 5, 6, 7])
    func damaged(_ index: Int) throws {
        let vector = EncodedVectors.deltas[index]
        var generator = SeededGenerator(seed: UInt64(index))
        for _ in 0..<150 {
            var stream = vector.stream
            stream[Int.random(in: 0..<stream.count, using: &generator)] ^=
                1 << UInt8.random(in: 0..<8, using: &generator)
            let bench = try encodedBench(vector.image, holding: vector.from, base: vector.base)
            let position = try #require(bench.beginEncoded(base: vector.base))
            var sequence = position.next
            for start in Swift.stride(from: 0, to: stream.count, by: 60) {
                bench.write(data: little(sequence) + stream[start..<min(start + 60, stream.count)])
                sequence &+= 1
            }
            // Some bits have no effect, such as the one that resets the dictionary.
            let isEqual = bench.flash.slot.starts(with: vector.image)
            if bench.request(OTA_FINISH) == OTA_OK { #expect(isEqual) }
            #expect(bench.flash.violations == [])
            // The device still accepts the image.
            let plain = try #require(bench.begin(OTA_OBJECT_IMAGE, vector.image, from: 0))
            bench.send(vector.image, at: plain)
            #expect(bench.request(OTA_FINISH) == OTA_OK)
        }
    }
}
