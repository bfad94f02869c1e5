import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// A whole update over SMP of 60 KiB, cut at every place where it can be cut: each run ends with the new image running for
/// good, byte for byte, or with the old one and a cause. Never is there nothing to boot.
@Suite(.serialized) struct ExhaustiveSMPCutTests {
    private static let imageSize = 60 * 1024
    /// Three packets of 2475 bytes, and the one that opens the upload anew.
    private static let windowBytes = 3 * 2475 + 32

    private let release: SMPRelease
    /// What an update without a fault takes.
    private let hostEvents, devicePackets, sessionEvents, flashOperations, restarts: Int

    init() throws {
        release = try SMPRelease(bytes: Self.imageSize)
        let world = try World(release)
        let before = world.device.flashOperationCount
        let run = try world.run()
        try #require(run.report?.outcome == .confirmed)
        hostEvents = world.transport.statistics.hostEvents
        devicePackets = world.transport.statistics.devicePackets
        sessionEvents = run.tally.events
        flashOperations = world.device.flashOperationCount - before
        restarts = world.device.restartCount
        try #require(hostEvents > 30 && devicePackets > 250 && sessionEvents > 30 && flashOperations > 25)
    }

    private func world(_ faults: (inout FaultPlan) -> Void) throws -> World<SMPWire> {
        var plan = FaultPlan()
        faults(&plan)
        return try World(release, faults: plan)
    }

    /// What must hold whatever happened.
    private func check(_ world: World<SMPWire>, _ run: Run, _ what: Comment) {
        #expect(!world.device.isUnbootable, what)
        #expect(world.device.flashViolationCount == 0, what)
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
            let run = try world.run()
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
            let run = try world.run()
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
            let run = try world.run()
            if world.device.restartCount > restarts { cut += 1 }
            if run.error == .wentBack {
                wentBack += 1
                #expect(world.runsOldImage && !world.device.isUnbootable, "operation \(operation)")
                continue
            }
            check(world, run, "power cut \(moment) operation \(operation) of \(flashOperations)")
        }
        // The bootloader's mark that the trial was booted is one operation, the confirmation another.
        #expect(wentBack <= 2)
        #expect(cut >= flashOperations - 2)
    }

    @Test func theClientIsKilledAtEveryEvent() throws {
        for event in 1...sessionEvents {
            let world = try world { _ in }
            let runs = try world.run([world.push, world.push], deaths: [event])
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
