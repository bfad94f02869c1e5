import Gauntlet
import OTAEngine
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// Complete updates in virtual time over a network that loses, doubles and delays datagrams.
@Suite("SMP updates over a faulty network") struct DatagramTests {
    private static let release = Result { try SMPRelease(bytes: 24_000) }

    private func run(
        _ harm: DatagramNetwork.Harm, seed: UInt64, adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws -> (World<SMPWire>, Run, lost: Int) {
        let world = try World(try Self.release.get(), adjust: adjust)
        let network = DatagramNetwork(harm, before: world.device, in: world.time, seed: seed)
        let run = try #require(try world.run([world.push], seed: seed, over: network).first)
        return (world, run, network.lost)
    }

    @Test("an update over a network without faults sends nothing twice, in chunks of 1472 bytes")
    func aGoodOneLosesNothing() throws {
        let (world, run, _) = try run(DatagramNetwork.Harm(longestWay: .zero), seed: 1)
        let transfer = try #require(run.report?.transfer, "\(run.outcome)")
        #expect(run.report?.outcome == .confirmed && world.runsNewImage)
        #expect(transfer.resentBytes == 0 && transfer.gaps == 0 && transfer.chunkSize == 1472)
    }

    @Test("an update ends confirmed without a device reset although datagrams are lost, doubled and reordered")
    func lostDoubledAndOvertaken() throws {
        let harm = DatagramNetwork.Harm(loss: 0.05, doubling: 0.05, longestWay: .milliseconds(20))
        var (lost, gaps) = (0, 0)
        for seed in 1...20 as ClosedRange<UInt64> {
            let (world, run, count) = try run(harm, seed: seed)
            #expect(run.report?.outcome == .confirmed, "seed \(seed): \(run.outcome)")
            #expect(world.runsNewImage && world.device.flashViolationCount == 0, "seed \(seed)")
            let resets = run.tally.reports.contains { if case .deviceReset = $0 { true } else { false } }
            #expect(!resets, "seed \(seed)")
            lost += count
            gaps += run.report?.transfer?.gaps ?? 0
        }
        #expect(lost > 30 && gaps > 30)
    }

    /// This device accepts one packet at a time, like Zephyr's server over UDP. So no later packet reveals a lost one.
    @Test("a lost datagram costs less than 1.5 s when the device accepts one packet at a time")
    func aLostDatagramCostsLittleTime() throws {
        let harm = DatagramNetwork.Harm(loss: 0.1, longestWay: .milliseconds(10))
        for seed in 1...5 as ClosedRange<UInt64> {
            let (world, run, lost) = try run(harm, seed: seed) { ($0.bufferCount, $0.bufferSize) = (2, 512) }
            #expect(run.report?.outcome == .confirmed && world.runsNewImage, "seed \(seed): \(run.outcome)")
            let seconds = (run.report?.transfer?.duration ?? .zero) / .seconds(1)
            #expect(lost > 5 && seconds < 1.5 * Double(lost), "seed \(seed): \(lost) lost, \(seconds) s")
            #expect(run.report?.transfer?.chunkSize == 512, "a lost datagram must not reduce the length")
        }
    }

    /// The device reports buffers of 2048 bytes, and the path drops longer datagrams than these. Some others are lost, too.
    @Test(
        "a push over a path that drops long datagrams continues with shorter ones within 20 s",
        arguments: [1471, 1232, 600, 128],
        [0.0, 0.02])
    func shortensTheDatagrams(path: Int, loss: Double) throws {
        for seed in 1...3 as ClosedRange<UInt64> {
            let (world, run, _) = try run(.init(loss: loss, way: .milliseconds(10)), seed: seed) {
                ($0.bufferSize, $0.packetLimit) = (2048, path)
            }
            let transfer = try #require(run.report?.transfer, "seed \(seed): \(run.outcome)")
            #expect(
                run.report?.outcome == .confirmed && world.runsNewImage && transfer.disconnects == 0, "seed \(seed)")
            #expect(
                transfer.chunkSize <= path && 2 * transfer.chunkSize > path || transfer.chunkSize == 128, "seed \(seed)"
            )
            #expect(transfer.duration < .seconds(loss > 0 ? 60 : 20), "seed \(seed): \(transfer.duration)")
        }
    }

    @Test("the same push sends the image again from offset 0 after the device restarts", arguments: [0.0, 0.02])
    func aDeviceThatRestartsByItself(loss: Double) throws {
        for seed in 1...5 as ClosedRange<UInt64> {
            let harm = DatagramNetwork.Harm(loss: loss, longestWay: .milliseconds(5), resetAt: 0.6)
            let (world, run, _) = try run(harm, seed: seed)
            #expect(run.report?.outcome == .confirmed && world.runsNewImage, "seed \(seed): \(run.outcome)")
            let resets = run.tally.reports.filter { if case .deviceReset = $0 { true } else { false } }
            #expect(resets == [.deviceReset(offset: 0)], "seed \(seed)")
            #expect(run.report?.transfer?.chunkSize == 1472, "seed \(seed)")
        }
    }

    @Test("an update sends nothing twice if its process is stopped for 5 s")
    func stoppedProcess() throws {
        for stop in stride(from: 100, to: 1500, by: 35) {
            let world = try World(try Self.release.get())
            let network = DatagramNetwork(.init(way: .milliseconds(20)), before: world.device, in: world.time, seed: 1)
            let clock = StoppedClock(
                time: world.time, stop: world.time.now.advanced(by: .milliseconds(stop)), length: .seconds(5))
            let (push, runner) = (world.push, UpdateRunner(clock: clock))
            let report = try world.time.run {
                try await runner.run(
                    UpdateSession(try SMPConversation(push), seed: 1), over: network,
                    interrupts: AsyncStream<Void> { $0.finish() })
            }
            #expect(report.outcome == .confirmed && world.runsNewImage, "stopped after \(stop) ms")
            #expect(report.transfer?.gaps == 0 && report.transfer?.resentBytes == 0, "stopped after \(stop) ms")
        }
    }
}

/// The clock of a process that is stopped once. The device and the network run on in the meantime, in `time`.
private struct StoppedClock: Clock {
    typealias Instant = VirtualTime.Instant
    let time: VirtualTime
    /// The time of the stop, and its duration.
    let stop: Instant
    let length: Duration

    var now: Instant {
        let now = time.now
        return now < stop ? now : now.advanced(by: length)
    }
    var minimumResolution: Duration { time.minimumResolution }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try await time.sleep(
            until: max(min(deadline, stop), deadline.advanced(by: .zero - length)), tolerance: tolerance)
    }
}
