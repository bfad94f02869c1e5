import OTAFirmware
import OTAProfile
import Testing

@Suite("Transfer of one object") struct ObjectTransferTests {
    private let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }

    private func transfer(window: Int = 64, of count: Int = 100_000, at now: Duration = .zero) -> ObjectTransfer {
        ObjectTransfer(
            .image, Array(bytes.prefix(count)), from: Position(next: 7, offset: 0, crc: 0), chunkLength: 244,
            window: WindowSize(limit: window), at: now)
    }
    /// Returns the position of a device that received this number of 242 byte chunks since sequence 7.
    private func position(_ chunks: Int, of count: Int = 100_000, rewinds: UInt16 = 0) -> Position {
        let offset = min(chunks * 242, count)
        return Position(
            next: UInt16(truncatingIfNeeded: 7 + chunks) &+ rewinds &* 4096, offset: offset,
            crc: CRC32.checksum(of: bytes[..<offset]))
    }

    @Test("a transfer sends one window, and then as many chunks as were acknowledged")
    func sendsAWindowAndNoMore() {
        var transfer = transfer()
        let chunks = transfer.nextChunks()
        #expect(chunks.count == 64)
        #expect(chunks[0] == [7, 0] + bytes[..<242])
        #expect(chunks[63] == [70, 0] + bytes[(63 * 242)..<(64 * 242)])
        #expect(transfer.nextChunks().isEmpty)
        #expect(transfer.nextFlush(at: .zero) == nil)
        #expect(transfer.progressed(to: position(16), at: .zero) == .agreed)
        #expect(transfer.nextChunks().count == 16)
        #expect(transfer.inFlight == 64)
    }

    @Test("a transfer flushes after 256 chunks, and sends at most one window more before the answer")
    func flushesEvery256ChunksAndGoesOn() {
        var transfer = transfer()
        var sent = 0
        while sent < 256 {
            sent += transfer.nextChunks().count
            if sent < 256 { #expect(transfer.progressed(to: position(sent), at: .zero) == .agreed) }
        }
        #expect(sent == 256)
        #expect(transfer.nextChunks().isEmpty, "the flush comes first")
        #expect(transfer.nextFlush(at: .zero) == 263)
        #expect(transfer.progressed(to: position(256), at: .zero) == .agreed)
        #expect(transfer.nextChunks().count == 64, "it does not wait for the answer")
        #expect(transfer.progressed(to: position(300), at: .zero) == .agreed)
        #expect(transfer.nextChunks().isEmpty, "no more than a window after an unanswered flush")
        #expect(transfer.flushed(to: position(310), at: .zero) == .agreed)
        #expect(!transfer.nextChunks().isEmpty)
    }

    // Enough chunks for the next flush are sent and acknowledged before the answer to the first flush.
    @Test("the answer to a flush also replaces a due flush for the chunks that it acknowledges")
    func goesOnWhereAFlushIsAnsweredForMoreThanItCovers() {
        var transfer = transfer(window: 300, of: 300_000)
        var sent = transfer.nextChunks().count
        #expect(sent == 256 && transfer.nextFlush(at: .zero) == 263)
        while sent < 556 {
            sent += transfer.nextChunks().count
            #expect(transfer.progressed(to: position(sent, of: 300_000), at: .zero) == .agreed)
        }
        #expect(transfer.inFlight == 0 && transfer.nextChunks().isEmpty)
        #expect(transfer.flushed(to: position(sent, of: 300_000), at: .zero) == .agreed)
        #expect(transfer.nextChunks().count == 256, "the answer also replaces the due flush")
        #expect(transfer.nextFlush(at: .zero) == 819)
    }

    @Test("a transfer flushes after 2 s, or after 1 s without a notification")
    func flushesAfter2SecondsAndAfter1SecondOfSilence() {
        var transfer = transfer()
        _ = transfer.nextChunks()
        #expect(transfer.deadline == .seconds(1))
        #expect(transfer.nextFlush(at: .milliseconds(999)) == nil)
        _ = transfer.progressed(to: position(1), at: .milliseconds(1500))
        #expect(transfer.deadline == .seconds(2))
        #expect(transfer.nextFlush(at: .milliseconds(1999)) == nil)
        #expect(transfer.nextFlush(at: .seconds(2)) == 71)
        #expect(transfer.deadline == nil)
        #expect(transfer.nextFlush(at: .seconds(9)) == nil, "one at a time")
    }

    @Test("a transfer flushes after the last chunk and is complete with the answer")
    func flushesBehindTheLastChunk() {
        var transfer = transfer(of: 500)
        #expect(transfer.nextChunks().map(\.count) == [244, 244, 18])
        #expect(transfer.nextFlush(at: .zero) == 10)
        #expect(!transfer.isComplete)
        #expect(transfer.flushed(to: position(3, of: 500), at: .zero) == .agreed)
        #expect(transfer.isComplete)
        #expect(transfer.deadline == nil)
    }

    @Test("a transfer continues from the device's offset after a rewind")
    func goesOnWhereTheDeviceRewound() {
        var transfer = transfer()
        _ = transfer.nextChunks()
        #expect(transfer.progressed(to: position(10, rewinds: 1), at: .zero) == .rewound(resent: 54 * 242))
        let chunks = transfer.nextChunks()
        #expect(chunks.count == 48, "a quarter less, because less than a window was accepted")
        #expect(chunks[0].prefix(2) == [17, 16], "4096 higher")
        #expect(chunks[0].dropFirst(2) == bytes[2420..<2662])
    }

    // The device reports its position after each 4 chunks. A window of 9 chunks contains two reports.
    @Test("a transfer flushes after each half of a window that gaps made smaller than two reports of the device")
    func flushesASmallWindow() {
        var transfer = transfer(window: 16)
        _ = transfer.nextChunks()
        for (rewinds, size) in [(1, 12), (2, 9)] as [(UInt16, Int)] {
            _ = transfer.progressed(to: position(0, rewinds: rewinds), at: .zero)
            #expect(transfer.nextChunks().count == size)
            #expect(transfer.nextFlush(at: .zero) == nil)
        }
        _ = transfer.progressed(to: position(0, rewinds: 3), at: .zero)
        #expect(transfer.nextChunks().count == 3, "half of 6")
        #expect(transfer.nextFlush(at: .zero) == 12298, "7 + 3 × 4096 + 3")
        #expect(transfer.nextChunks().count == 3, "it does not wait for the answer")
        #expect(transfer.flushed(to: position(3, rewinds: 3), at: .zero) == .agreed)
        #expect(transfer.nextFlush(at: .zero) == 12301)
        #expect(transfer.nextChunks().count == 3)
    }

    @Test("the chunks that a rewind accepts count for the next size of the window", arguments: [(127, 48), (128, 64)])
    func countsTheChunksBeforeAGap(accepted: Int, size: Int) {
        var transfer = transfer()
        _ = transfer.nextChunks()
        _ = transfer.progressed(to: position(64), at: .zero)
        _ = transfer.nextChunks()
        _ = transfer.progressed(to: position(64, rewinds: 1), at: .zero)
        #expect(transfer.nextChunks().count == 64)
        _ = transfer.progressed(to: position(accepted, rewinds: 2), at: .zero)
        #expect(transfer.nextChunks().count == size)
    }

    @Test("the answer to a flush that a rewind overtook is accepted")
    func takesAFlushThatWasOvertakenByARewind() {
        var transfer = transfer(of: 2000)
        _ = transfer.nextChunks()
        #expect(transfer.nextFlush(at: .zero) == 16)
        #expect(transfer.progressed(to: position(4, of: 2000, rewinds: 1), at: .zero) == .rewound(resent: 2000 - 968))
        #expect(transfer.flushed(to: position(4, of: 2000, rewinds: 1), at: .zero) == .agreed)
    }

    @Test("the answer to a flush that does not cover all its chunks is a mismatch")
    func seesAFlushThatLeavesChunksOut() {
        var transfer = transfer(of: 2000)
        _ = transfer.nextChunks()
        _ = transfer.nextFlush(at: .zero)
        #expect(transfer.flushed(to: position(5, of: 2000), at: .zero) == .mismatch)
    }

    @Test("a wrong CRC is ignored in a notification, and is a mismatch in the answer to a flush")
    func believesAnswersOnly() {
        var wrong = position(5)
        wrong.crc ^= 1
        var transfer = transfer(of: 2000)
        _ = transfer.nextChunks()
        _ = transfer.nextFlush(at: .zero)
        #expect(transfer.progressed(to: wrong, at: .zero) == .agreed)
        #expect(transfer.acknowledgedOffset == 0)
        #expect(transfer.flushed(to: wrong, at: .zero) == .mismatch)
    }
}
