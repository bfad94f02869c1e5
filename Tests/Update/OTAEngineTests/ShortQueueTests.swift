import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Updates devices with a queue that is shorter than the window that they report. Such a device drops each chunk that finds its queue full.
@Suite("A device's queue that is shorter than its window") struct ShortQueueTests {
    private static let release = Result { try ExampleRelease(bytes: 200_000) }

    /// The device's thread and its flash.
    struct Pace: Sendable, CustomTestStringConvertible {
        var chunkTime: Duration
        var flashSpeed: Int?
        var testDescription: String {
            "\(chunkTime) for a chunk, flash \(flashSpeed.map { "\($0) bytes/s" } ?? "without delay")"
        }
    }
    static let paces = [
        Pace(chunkTime: .milliseconds(5)), Pace(chunkTime: .milliseconds(1), flashSpeed: 100_000),
        Pace(chunkTime: .milliseconds(20)),
    ]

    /// Returns the image bytes per second, and the sent bytes for each image byte.
    private func push(_ pace: Pace, queue: Int, window: Int, gap: Double = 0) throws -> (speed: Double, sent: Double) {
        let release = try Self.release.get()
        var faults = FaultPlan()
        faults.gap = gap
        let world = try World(release, faults: faults) {
            ($0.chunkTime, $0.flashSpeed) = (pace.chunkTime, pace.flashSpeed)
            ($0.queueLength, $0.window) = (queue, window)
        }
        let run = try world.push()
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .confirmed && world.runsNewImage)
        let transfer = try #require(report.transfer)
        let bytes = Double(release.image.count)
        return (bytes / (transfer.duration / .seconds(1)), Double(transfer.sentBytes) / bytes)
    }

    @Test(
        "a short queue keeps half of the speed that a window of its length has, and at most half of the bytes are sent twice",
        arguments: paces, [4, 8, 16, 32])
    func keepsHalfOfTheSpeed(pace: Pace, queue: Int) throws {
        let possible = try push(pace, queue: queue, window: queue)
        let short = try push(pace, queue: queue, window: 64)
        #expect(short.speed >= possible.speed / 2, "\(short.speed) \(possible.speed)")
        #expect(short.sent <= 2, "\(short.sent)")
    }

    @Test("a queue as long as the window causes no gap", arguments: paces)
    func fullQueue(pace: Pace) throws {
        let full = try push(pace, queue: 64, window: 64)
        #expect(full.sent == 1)
    }

    // The lowest speeds are those of a window of 64 that does not change.
    @Test(
        "chunks that the link loses do not make the transfer slower than a window that never changes",
        arguments: [(0.001, 88_000), (0.01, 61_000), (0.05, 24_000), (0.1, 11_000)])
    func lostChunks(gap: Double, slowest: Double) throws {
        let lossy = try push(Pace(chunkTime: .zero), queue: 64, window: 64, gap: gap)
        #expect(lossy.speed >= slowest, "\(lossy.speed)")
    }
}
