import OTASMP
import Testing

@Suite("Packet limit of an SMP upload") struct SMPPacketLimitTests {
    @Test("two long packets without an answer do not reduce the limit, and the third halves it")
    func reducesAtTheThird() {
        var limit = SMPPacketLimit()
        for _ in 0..<2 {
            let isReduced = limit.timedOut(1000)
            #expect(!isReduced && limit.bytes == nil && limit.isTesting)
            #expect(limit.nextLength(of: 1000) == 128)
            limit.received(128)
            #expect(limit.nextLength(of: 1000) == 1000)
        }
        let isReduced = limit.timedOut(1000)
        #expect(isReduced && limit.bytes == 500 && !limit.isTesting)
        #expect(limit.nextLength(of: 1000) == 500 && limit.length(of: 400) == 400)
    }

    // A device that is away answers no packet. It must not lose its long packets.
    @Test("short packets without an answer reduce nothing, and no long packet follows them")
    func keepsTheLengthOfASilentDevice() {
        var limit = SMPPacketLimit()
        _ = limit.timedOut(1000)
        for _ in 0..<100 {
            #expect(limit.nextLength(of: 1000) == 128)
            let isReduced = limit.timedOut(128)
            #expect(!isReduced)
        }
        limit.received(128)
        limit.received(1000)
        #expect(limit.bytes == nil && !limit.isTesting)
    }

    @Test("an answer to a long packet starts the count again")
    func countsInARow() {
        var limit = SMPPacketLimit()
        for length in 200...300 {
            for _ in 0..<2 {
                _ = limit.timedOut(length)
                limit.received(128)
            }
            limit.received(length)
        }
        #expect(limit.bytes == nil)
    }

    @Test("a length that was answered on the link is not reduced on this link, but on the next one")
    func keepsAnAnsweredLength() {
        var limit = SMPPacketLimit()
        limit.received(1000)
        for _ in 0..<10 { _ = limit.timedOut(1000) }
        #expect(limit.bytes == nil && !limit.isTesting && limit.nextLength(of: 1000) == 1000)
        _ = limit.timedOut(1001)
        #expect(limit.bytes == nil && limit.isTesting)
        limit.received(1001)
        limit.linkFailed()
        let areReduced = (0..<3).map { _ in limit.timedOut(1000) }
        #expect(areReduced == [false, false, true])
    }

    @Test(
        "the limit does not fall below 128 bytes, and a packet of 128 bytes is never too long",
        arguments: [(129, 128), (255, 128), (256, 128), (257, 128), (258, 129), (2475, 1237)])
    func hasALowerBound(length: Int, reduced: Int) {
        var limit = SMPPacketLimit()
        for _ in 0..<3 { _ = limit.timedOut(length) }
        #expect(limit.bytes == reduced)
        var shortest = SMPPacketLimit()
        for _ in 0..<10 { _ = shortest.timedOut(128) }
        #expect(!shortest.isTesting && shortest.bytes == nil)
    }
}
