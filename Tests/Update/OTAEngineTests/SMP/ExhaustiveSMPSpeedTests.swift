import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// Compares the speed of 512 KiB with the bound of the modelled link.
@Suite("Speed over SMP") struct ExhaustiveSMPSpeedTests {
    private static let release = Result { try SMPRelease(bytes: 512 * 1024) }

    private struct Speed {
        /// The speed divided by the bound of the link.
        let efficiency: Double
        let transfer: TransferReport
        /// The number of packets that the device dropped because no buffer was free.
        let overflows: Int
    }

    /// By default the device has 4 buffers of 2475 bytes, and the radio carries 6 packets every 15 ms.
    private func speed(
        mtu: Int = 498, loss: Double = 0, adjust: (inout VirtualSMPConfiguration) -> Void
    ) throws -> Speed {
        var radio = RadioModel()
        radio.mtu = mtu
        radio.loss = loss
        let world = try World(try Self.release.get(), radio: radio, adjust: adjust)
        let report = try #require(try world.run().report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        let transfer = try #require(report.transfer)
        let rate = Double(transfer.imageBytes) / (transfer.duration / .seconds(1))
        return Speed(
            efficiency: rate / radio.bytesPerSecondBound(valueLength: min(495, mtu - 3)), transfer: transfer,
            overflows: world.device.overflowCount)
    }

    private func efficiency(loss: Double = 0, adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }) throws
        -> Double
    {
        let speed = try speed(loss: loss, adjust: adjust)
        #expect(speed.overflows == 0 && speed.transfer.gaps == 0 && speed.transfer.resentBytes == 0)
        return speed.efficiency
    }

    @Test("the SMP transfer reaches 95 % of the bound of the link")
    func reaches95PerCentOfTheBound() throws {
        let efficiency = try efficiency()
        #expect(efficiency >= 0.95 && efficiency <= 1)
    }

    @Test("the SMP transfer reaches 90 % of the bound when each answer takes 15 ms")
    func reaches90PerCentOfTheBoundWhereAnswersTakeTime() throws {
        #expect(try efficiency { $0.answerDelay = .milliseconds(15) } >= 0.90)
    }

    /// A buffer becomes free `release` milliseconds after an answer. The next chunk may arrive earlier.
    ///
    /// With three chunks in flight the device repeatedly drops chunks without an answer.
    @Test(
        "the SMP transfer reaches 80 % of the bound with a device that drops chunks silently, and resends at most 2 %",
        arguments: [(2, 27), (3, 25), (5, 24), (7, 20), (1, 28)])
    func reaches80PerCentWhereChunksAreDropped(answer: Int, release: Int) throws {
        let speed = try speed {
            ($0.answerDelay, $0.releaseDelay) = (.milliseconds(answer), .milliseconds(release))
        }
        #expect(speed.overflows > 0, "the device dropped no packet")
        #expect(speed.transfer.gaps >= 1)
        #expect(speed.efficiency >= 0.80)
        #expect(speed.transfer.disconnects == 0)
        #expect(Double(speed.transfer.resentBytes) <= 0.02 * Double(speed.transfer.imageBytes))
    }

    /// One packet of 244 bytes at a time gives 7 kB/s, because a packet and its answer take two intervals.
    @Test(
        "a device that does not report its buffers receives as many packets at once as it can buffer",
        arguments: [(2, 1), (3, 2), (4, 3), (8, 6)])
    func fillsTheBuffersOfASmallDevice(buffers: Int, packets: Int) throws {
        let speed = try speed(mtu: 247) {
            ($0.reportsParameters, $0.reassembles) = (false, false)
            ($0.bufferSize, $0.bufferCount) = (384, buffers)
        }
        #expect(speed.transfer.gaps == 0)
        let rate = Double(speed.transfer.imageBytes) / (speed.transfer.duration / .seconds(1))
        #expect(rate >= 6500 * Double(packets), "\(rate)")
    }

    @Test("the SMP transfer reaches 88 % of the bound when 5 % of the connection events are lost")
    func reaches88PerCentOfTheBoundWith5PerCentOfEventsLost() throws {
        #expect(try efficiency(loss: 0.05) >= 0.88)
    }
}
