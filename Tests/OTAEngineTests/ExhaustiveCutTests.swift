import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// A whole update of 100 KiB, cut at every place where it can be cut: each run ends with the new image running for good,
/// byte for byte, or with the old one and a cause. Never is there nothing to boot.
@Suite(.serialized) struct ExhaustiveCutTests {
    private static let imageSize = 100 * 1024
    /// At MTU 247: 242 image bytes in a chunk.
    private static let windowBytes = 64 * 242
    private static let pageBytes = 4096

    private let release: Release
    /// What an update without a fault takes.
    private let hostEvents, devicePackets, sessionEvents, flashOperations, restarts: Int

    init() throws {
        release = try Release(bytes: Self.imageSize)
        let world = try World(release)
        let before = world.device.flashOperationCount
        let run = try world.push()
        try #require(run.report?.outcome == .confirmed)
        hostEvents = world.transport.statistics.hostEvents
        devicePackets = world.transport.statistics.devicePackets
        sessionEvents = run.tally.events
        flashOperations = world.device.flashOperationCount - before
        restarts = world.device.restartCount
        try #require(hostEvents > 50 && devicePackets > 423 && sessionEvents > 50 && flashOperations > 75)
    }

    private func world(_ faults: (inout FaultPlan) -> Void) throws -> World<ProfileWire> {
        var plan = FaultPlan()
        faults(&plan)
        return try World(release, faults: plan)
    }

    /// What must hold whatever happened.
    private func check(_ world: World<ProfileWire>, _ run: Run, _ what: Comment) {
        #expect(!world.device.isUnbootable, what)
        #expect(world.device.flashViolationCount == 0, what)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64, what)
        switch run.outcome {
        case .success(let report):
            #expect(report.outcome == .confirmed, what)
            #expect(world.runsNewImage, what)
        case .failure(let error):
            Issue.record("\(what): \(error.code) \(error.context)")
        }
    }

    @Test func theLinkIsCutAfterEveryEventOfTheHost() throws {
        var cut = 0
        for event in 1...hostEvents {
            let world = try world { $0.cutAfterHostEvents = [event] }
            let run = try world.push()
            cut += run.report?.transfer?.disconnects ?? 0
            check(world, run, "cut after event \(event)")
            #expect((run.report?.transfer?.resentBytes ?? .max) <= Self.windowBytes, "event \(event)")
        }
        // But for the breaks that come with the restart anyway, and the one behind the last answer.
        #expect(cut >= hostEvents - 5)
    }

    @Test func theLinkIsCutAfterEveryPacketToTheDevice() throws {
        var cut = 0
        for packet in 1...devicePackets {
            let world = try world { $0.cutAfterDevicePackets = [packet] }
            let run = try world.push()
            cut += run.report?.transfer?.disconnects ?? 0
            check(world, run, "cut after packet \(packet)")
            #expect((run.report?.transfer?.resentBytes ?? .max) <= Self.windowBytes, "packet \(packet)")
        }
        #expect(cut >= devicePackets - 5)
    }

    /// A power cut while the new image boots on trial is a trial that ended: then the device has gone back, and it is said.
    @Test(arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        var (cut, wentBack) = (0, 0)
        for operation in 1...flashOperations {
            let world = try world { $0.powerCuts = [PowerCut(operation: operation, moment: moment)] }
            let run = try world.push()
            if world.device.restartCount > restarts { cut += 1 }
            if run.error == .wentBack {
                wentBack += 1
                #expect(world.runsOldImage && !world.device.isUnbootable, "operation \(operation)")
                continue
            }
            check(world, run, "power cut \(moment) operation \(operation) of \(flashOperations)")
            let resent = run.report?.transfer?.resentBytes ?? .max
            #expect(resent <= Self.windowBytes + Self.pageBytes, "operation \(operation)")
        }
        // The bootloader's mark that the trial was booted is one operation, CONFIRM's another.
        #expect(wentBack <= 2)
        // But right behind the bootloader's mark the cut takes the place of the restart.
        #expect(cut >= flashOperations - 2)
    }

    @Test func theClientIsKilledAtEveryEvent() throws {
        let push = ProfileTask.push(release.bundle, PushOptions())
        let resume = ProfileTask.push(release.bundle, PushOptions(resume: true))
        for event in 1...sessionEvents {
            let world = try world { _ in }
            let runs = try world.run([push, resume], deaths: [event])
            #expect(runs[0].error == .interrupted)
            let report = try #require(runs[1].report, "killed at event \(event): \(runs[1].outcome)")
            #expect(report.outcome == .confirmed || report.outcome == .alreadyRunning, "event \(event)")
            #expect(world.runsNewImage && !world.device.isUnbootable, "event \(event)")
            if runs[1].tally.reports.contains(.phase(.transfer)), let transfer = report.transfer {
                let again = runs[0].tally.sentOffset - transfer.resumedFrom
                #expect(again <= Self.windowBytes, "event \(event): \(again) bytes again")
            }
        }
    }
}
