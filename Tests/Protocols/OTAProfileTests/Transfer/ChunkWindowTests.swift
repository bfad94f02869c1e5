import OTAProfile
import Testing

@Suite("Chunk window") struct ChunkWindowTests {
    /// Returns a window at sequence `start` with `count` chunks of 10 bytes in flight. The CRC after each chunk is its number.
    private func window(from start: UInt16 = 100, inFlight count: Int = 4) -> ChunkWindow {
        var window = ChunkWindow(at: Position(next: start, offset: 0, crc: 0))
        for number in 1..<(count + 1) { window.book(ChunkWindow.Mark(offset: number * 10, crc: UInt32(number))) }
        return window
    }
    private func position(_ next: UInt16, taken: Int) -> Position {
        Position(next: next, offset: taken * 10, crc: UInt32(taken))
    }

    @Test("a position with the expected offset and CRC acknowledges its chunks", arguments: 0...4)
    func acknowledges(taken: Int) {
        var window = window()
        #expect(window.read(position(100 + UInt16(taken), taken: taken)) == .acknowledged(chunks: taken))
        #expect(window.inFlight == 4 - taken)
        #expect(window.acknowledgedMark.offset == taken * 10)
        #expect(window.sentMark.offset == 40)
    }

    @Test("a position 4096 ahead rewinds the window to its offset", arguments: 0...4)
    func rewinds(taken: Int) {
        var window = window()
        let next = 100 + UInt16(taken) + 4096
        #expect(window.read(position(next, taken: taken)) == .rewound(accepted: taken))
        #expect(window.inFlight == 0)
        #expect(window.sent == next)
        #expect(window.sentMark.offset == taken * 10)
    }

    @Test(
        "a position outside the window is stale and changes nothing",
        arguments: [99, 105, 2000, 4195, 4201, 8292, 60000] as [UInt16])
    func ignoresWhatIsOlder(next: UInt16) {
        var window = window()
        #expect(window.read(position(next, taken: 1)) == .stale)
        #expect(window.inFlight == 4)
    }

    @Test(
        "a position with another offset disagrees and changes nothing",
        arguments: [(102, 1), (102, 3), (100 + 4096 + 2, 3)] as [(UInt16, Int)])
    func seesDisagreement(next: UInt16, taken: Int) {
        var window = window()
        #expect(window.read(position(next, taken: taken)) == .disagrees)
        #expect(window.inFlight == 4)
    }

    @Test(
        "a position with the expected offset and another CRC disagrees", arguments: [102, 100 + 4096 + 2] as [UInt16])
    func seesAnotherCRC(next: UInt16) {
        var window = window()
        #expect(window.read(Position(next: next, offset: 20, crc: 7)) == .disagrees)
        #expect(window.inFlight == 4)
    }

    @Test("sequence numbers wrap around from 65535 to 0")
    func wrapsAround() {
        var window = window(from: 65534)
        #expect(window.sent == 2)
        #expect(window.read(position(1, taken: 3)) == .acknowledged(chunks: 3))
        #expect(window.isAcknowledged(upTo: 65535))
        #expect(!window.isAcknowledged(upTo: 2))
        #expect(window.read(position(2 + 4096, taken: 4)) == .rewound(accepted: 1))
    }

    @Test("a sequence counts as acknowledged up to the last position")
    func knowsWhatIsAcknowledged() {
        var window = window()
        _ = window.read(position(102, taken: 2))
        #expect(window.isAcknowledged(upTo: 100))
        #expect(window.isAcknowledged(upTo: 102))
        #expect(!window.isAcknowledged(upTo: 103))
        #expect(window.isAcknowledged(upTo: 102 &- 2047))
        #expect(!window.isAcknowledged(upTo: 102 &- 2048), "a window has at most 2047 chunks")
    }
}
