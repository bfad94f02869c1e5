import OTAFirmware
import OTAProfile
import Testing

@Suite("Positions in an encoded image") struct StreamPositionsTests {
    /// Three chunks: image bytes 100..<300, 300..<400 and 400..<1000 in 20, 50 and 30 bytes of the stream.
    private let encoded = EncodedImage(
        offset: 100, bytes: [UInt8](repeating: 0, count: 100),
        chunks: [
            .init(imageEnd: 300, streamEnd: 20), .init(imageEnd: 400, streamEnd: 70),
            .init(imageEnd: 1000, streamEnd: 100),
        ])
    private var positions: StreamPositions { get throws { try #require(StreamPositions(encoded, imageSize: 1000)) } }

    @Test("the decoded image ends with the last complete chunk")
    func completeImage() throws {
        let positions = try positions
        #expect(
            [0, 19, 20, 69, 70, 99, 100].map { positions.completeImage(at: $0) } == [
                100, 100, 300, 300, 400, 400, 1000,
            ])
    }

    @Test("offsets inside a chunk are proportional")
    func estimates() throws {
        let positions = try positions
        #expect([0, 10, 20, 45, 70, 85, 100].map { positions.image(at: $0) } == [100, 200, 300, 350, 400, 700, 1000])
        #expect(
            [0, 100, 101, 200, 300, 350, 400, 700, 1000].map { positions.stream(at: $0) } == [
                0, 0, 1, 10, 20, 45, 70, 85, 100,
            ])
    }

    @Test("the starts of chunks are found")
    func starts() throws {
        let positions = try positions
        #expect([0, 1, 20, 21, 70, 71].map { positions.start(atOrAfter: $0) } == [0, 20, 20, 70, 70, nil])
        #expect(
            ([0..<0, 0..<1, 0..<20, 0..<21, 1..<100, 20..<70, 71..<100] as [Range<Int>]).map {
                positions.starts(in: $0)
            } == [
                0, 1, 1, 2, 2, 1, 0,
            ])
    }

    @Test("chunks that do not cover the stream and the image are refused")
    func invalid() {
        func isValid(_ change: (inout EncodedImage) -> Void) -> Bool {
            var encoded = encoded
            change(&encoded)
            return StreamPositions(encoded, imageSize: 1000) != nil
        }
        #expect(isValid { _ in })
        #expect(!isValid { $0.chunks[2].imageEnd = 999 })
        #expect(!isValid { $0.chunks[2].imageEnd = 400 })
        #expect(!isValid { $0.chunks[1].streamEnd = 20 })
        #expect(!isValid { $0.chunks.removeLast() })
        #expect(!isValid { $0.bytes.append(0) })
        #expect(!isValid { $0.offset = 300 })
        let large = EncodedImage(offset: 0, bytes: [0], chunks: [.init(imageEnd: 65537, streamEnd: 1)])
        #expect(StreamPositions(large, imageSize: 65537) == nil)
    }
}

@Suite("Transfer of an encoded image") struct StreamTransferTests {
    /// A stream of `count` chunks, each with `length` bytes for 1000 image bytes.
    private func transfer(_ count: Int, of length: Int, window: Int = 64, chunkLength: Int = 244) throws
        -> ObjectTransfer
    {
        let encoded = EncodedImage(
            offset: 0, bytes: [UInt8](repeating: 7, count: count * length),
            chunks: (1...count).map { .init(imageEnd: $0 * 1000, streamEnd: $0 * length) })
        let positions: StreamPositions = try #require(StreamPositions(encoded, imageSize: count * 1000))
        return ObjectTransfer(
            .image, encoded.bytes, from: Position(next: 0, offset: 0, crc: 0), chunkLength: chunkLength,
            window: WindowSize(limit: window), positions: positions, at: .zero)
    }
    private func position(_ values: UInt16, _ offset: Int) -> Position {
        Position(next: values, offset: offset, crc: CRC32.checksum(of: [UInt8](repeating: 7, count: offset)))
    }

    @Test("at most one chunk of the encoding starts in a Data value, and a flush is due after three")
    func oneStartInAValue() throws {
        var transfer = try transfer(10, of: 11)
        #expect(transfer.nextChunks().map(\.count) == [13, 13, 13])
        #expect(transfer.nextFlush(at: .zero) == 3)
        #expect(transfer.nextChunks().map(\.count) == [13], "four chunks in flight")
        #expect(transfer.nextChunks().isEmpty && transfer.nextFlush(at: .zero) == nil)
        #expect(transfer.flushed(to: position(3, 33), at: .zero) == .agreed)
        #expect(transfer.acknowledgedPlainOffset == 3000)
        #expect(transfer.nextChunks().count == 2)
        #expect(transfer.nextFlush(at: .zero) == 6)
    }

    @Test("a value contains the end of one chunk and the start of the next one")
    func valuesAcrossChunks() throws {
        var transfer = try transfer(4, of: 300)
        let values = transfer.nextChunks()
        #expect(values.map { $0.count - 2 } == [242, 242, 242], "three chunks start in 726 bytes")
        #expect(transfer.nextFlush(at: .zero) == 3)
        #expect(transfer.nextChunks().map { $0.count - 2 } == [242, 232])
        #expect(transfer.acknowledgedPlainOffset == 0 && transfer.sentPlainOffset == 4000)
        #expect(transfer.progressed(to: position(1, 242), at: .zero) == .agreed)
        #expect(transfer.acknowledgedPlainOffset == 0, "the first chunk has 300 bytes")
        #expect(transfer.progressed(to: position(2, 484), at: .zero) == .agreed)
        #expect(transfer.acknowledgedPlainOffset == 1000)
    }

    @Test("the start of a fifth chunk waits, and the bytes before it are sent")
    func fifthStart() throws {
        var transfer = try transfer(6, of: 100, chunkLength: 82)
        _ = transfer.nextChunks()
        #expect(transfer.nextFlush(at: .zero) != nil)
        _ = transfer.nextChunks()
        #expect(transfer.sentOffset == 400 && transfer.nextChunks().isEmpty)
    }

    @Test("long chunks need no more flushes than a plain image")
    func longChunks() throws {
        var transfer = try transfer(3, of: 10_000)
        #expect(transfer.nextChunks().count == 64 && transfer.nextFlush(at: .zero) == nil)
    }
}
