import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Compares the speed of 512 KiB in virtual time with the bound of the modelled link (docs/performance.md).
@Suite("Speed over the OTA profile") struct ExhaustiveSpeedTests {
    struct Radio: Sendable, CustomTestStringConvertible {
        var interval: Duration
        var perEvent: Int
        var mtu: Int
        var testDescription: String { "\(interval), \(perEvent) packets per event, MTU \(mtu)" }

        var model: RadioModel {
            var model = RadioModel()
            model.interval = interval
            model.perEvent = perEvent
            model.mtu = mtu
            return model
        }

        static let all: [Radio] = {
            let slow = [15, 30, 50].flatMap { interval in
                [2, 4, 6].map { (Duration.milliseconds(interval), $0) }
            }
            let fast = [2, 3].map { (Duration.microseconds(7500), $0) }
            return (slow + fast).flatMap { interval, perEvent in
                [247, 498].map { Radio(interval: interval, perEvent: perEvent, mtu: $0) }
            }
        }()
    }

    private static let release = Result { try ExampleRelease(bytes: 512 * 1024) }

    /// The speed of the transfer divided by the bound without loss.
    private func efficiency(_ radio: RadioModel) throws -> Double {
        let transfer = try transfer(radio)
        return transfer.bytesPerSecond / radio.bytesPerSecondBound(valueLength: transfer.chunkSize)
    }

    private func transfer(_ radio: RadioModel) throws -> TransferReport {
        let world = try World(try Self.release.get(), radio: radio)
        let run = try world.push()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64)
        return try #require(report.transfer)
    }

    @Test("the transfer reaches 97 % of the bound of the link", arguments: Radio.all)
    func reaches97PerCentOfTheBound(radio: Radio) throws {
        let efficiency = try efficiency(radio.model)
        #expect(efficiency >= 0.97 && efficiency <= 1)
    }

    @Test("the transfer reaches 90 % of the bound when 5 % of the connection events are lost", arguments: Radio.all)
    func reaches90PerCentOfTheBoundWith5PerCentOfEventsLost(radio: Radio) throws {
        var model = radio.model
        model.loss = 0.05
        #expect(try efficiency(model) >= 0.90)
    }

    @Test("the transfer reaches 97 % of the bound at MTU 23")
    func worksAtTheSmallestMTU() throws {
        var model = RadioModel()
        model.mtu = 23
        // 18 image bytes in each of 6 packets every 15 ms.
        #expect(try transfer(model).bytesPerSecond >= 0.97 * 7200)
    }
}

extension TransferReport {
    fileprivate var bytesPerSecond: Double { Double(imageBytes) / (duration / .seconds(1)) }
}
