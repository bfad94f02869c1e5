import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// As fast as the link, against what the modelled link can carry.
@Suite struct ExhaustiveSMPSpeedTests {
    private static let release = Result { try SMPRelease(bytes: 512 * 1024) }

    /// 4 buffers of 2475 bytes, MTU 498, 6 packets every 15 ms.
    private func efficiency(loss: Double = 0, adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }) throws
        -> Double
    {
        var radio = RadioModel()
        radio.mtu = 498
        radio.loss = loss
        let world = try World(try Self.release.get(), radio: radio, adjust: adjust)
        let report = try #require(try world.run().report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        #expect(world.device.mostPacketsWaiting <= 3)
        let transfer = try #require(report.transfer)
        #expect(transfer.gaps == 0 && transfer.resentBytes == 0)
        let rate = Double(transfer.imageBytes) / (transfer.duration / .seconds(1))
        return rate / radio.bytesPerSecondBound(valueLength: 495)
    }

    @Test func reaches95PerCentOfTheBound() throws {
        let efficiency = try efficiency()
        #expect(efficiency >= 0.95 && efficiency <= 1)
    }

    @Test func reaches90PerCentOfTheBoundWhereAnswersTakeTime() throws {
        #expect(try efficiency { $0.answerDelay = .milliseconds(15) } >= 0.90)
    }

    @Test func reaches88PerCentOfTheBoundWith5PerCentOfEventsLost() throws {
        #expect(try efficiency(loss: 0.05) >= 0.88)
    }
}
