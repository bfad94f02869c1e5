import Gauntlet
import OTASimulator
import OTAUpdate
import Testing

/// A whole update, cut at every place where it can be cut: each run ends with the new image running for good, byte for byte, or with the
/// old one and a cause. Never is there nothing to boot.
struct Cuts<Kind: Wire> {
    private let world: (FaultPlan) throws -> World<Kind>
    private let push, resume: Kind.Task
    /// What was on its way at a break is sent again, and no more.
    private let windowBytes: Int
    /// What the device may have lost besides when it loses power; nil: all.
    private let pageBytes: Int?
    /// What an update without a fault takes.
    private let hostEvents, devicePackets, sessionEvents, flashOperations, restarts: Int

    /// - Parameters:
    ///   - push: the update; `resume`: goes on with it after a client that was killed.
    ///   - world: a new world with such faults.
    init(
        of push: Kind.Task, resume: Kind.Task, windowBytes: Int, pageBytes: Int?,
        world: @escaping (FaultPlan) throws -> World<Kind>
    ) throws {
        (self.push, self.resume, self.windowBytes, self.pageBytes) = (push, resume, windowBytes, pageBytes)
        self.world = world
        let whole = try world(FaultPlan())
        let before = whole.device.flashOperationCount
        let run = try whole.run([push])[0]
        try #require(run.report?.outcome == .confirmed)
        hostEvents = whole.transport.statistics.hostEvents
        devicePackets = whole.transport.statistics.devicePackets
        sessionEvents = run.tally.events
        flashOperations = whole.device.flashOperationCount - before
        restarts = whole.device.restartCount
        try #require(hostEvents > 30 && devicePackets > 250 && sessionEvents > 30 && flashOperations > 25)
    }

    private func world(_ faults: (inout FaultPlan) -> Void) throws -> World<Kind> {
        var plan = FaultPlan()
        faults(&plan)
        return try world(plan)
    }

    /// What must hold whatever happened.
    private func check(_ world: World<Kind>, _ run: Run, resent: Int?, _ what: Comment) {
        #expect(!world.device.isUnbootable, what)
        #expect(world.device.flashViolationCount == 0, what)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64, what)
        switch run.outcome {
        case .success(let report):
            #expect(report.outcome == .confirmed, what)
            #expect(world.runsNewImage, what)
            if let resent { #expect((report.transfer?.resentBytes ?? .max) <= resent, what) }
        case .failure(let error):
            Issue.record("\(what): \(error.code) \(error.context)")
        }
    }

    func ofTheLinkAfterEveryEventOfTheHost() throws {
        try ofTheLink(after: 1...hostEvents) { $0.cutAfterHostEvents = [$1] }
    }

    func ofTheLinkAfterEveryPacketToTheDevice() throws {
        try ofTheLink(after: 1...devicePackets) { $0.cutAfterDevicePackets = [$1] }
    }

    private func ofTheLink(after places: ClosedRange<Int>, _ cut: (inout FaultPlan, Int) -> Void) throws {
        var breaks = 0
        for place in places {
            let world = try world { cut(&$0, place) }
            let run = try world.run([push])[0]
            breaks += run.report?.transfer?.disconnects ?? 0
            check(world, run, resent: windowBytes, "cut after \(place)")
        }
        // But for the breaks that come with the restart anyway, and the one behind the last answer.
        #expect(breaks >= places.count - 5)
    }

    /// A power cut while the new image boots on trial is a trial that ended: then the device has gone back, and it is said.
    func ofThePowerAtEveryFlashOperation(_ moment: PowerCut.Moment) throws {
        var (cut, rolledBack) = (0, 0)
        for operation in 1...flashOperations {
            let world = try world { $0.powerCuts = [PowerCut(operation: operation, moment: moment)] }
            let run = try world.run([push])[0]
            if world.device.restartCount > restarts { cut += 1 }
            if run.error == .rolledBack {
                rolledBack += 1
                #expect(world.runsOldImage && !world.device.isUnbootable, "operation \(operation)")
                continue
            }
            let resent = pageBytes.map { windowBytes + $0 }
            check(world, run, resent: resent, "power cut \(moment) operation \(operation) of \(flashOperations)")
        }
        // The bootloader's mark that the trial was booted is one operation, the confirmation another.
        #expect(rolledBack <= 2)
        // But right behind the bootloader's mark the cut takes the place of the restart.
        #expect(cut >= flashOperations - 2)
    }

    /// One flash operation fails with the power on. The push ends well or names a cause; a second one, on a flash that works
    /// again, ends with the new image.
    func ofTheFlashAtEveryOperation(_ kind: FlashFault.Kind) throws {
        var failed = 0
        for operation in 1...flashOperations {
            let what: Comment = "\(kind), operation \(operation) of \(flashOperations)"
            let world = try world { $0.flashFaults = [FlashFault(operation: operation, kind: kind)] }
            let runs = try world.run([push, resume])
            #expect(!world.device.isUnbootable, what)
            // An erase that lies about its success has the core write on bytes that are not erased.
            #expect(kind == .silently || world.device.flashViolationCount == 0, what)
            if case .failure(let error) = runs[0].outcome {
                failed += 1
                #expect([.flashFailed, .rolledBack].contains(error.code), "\(what): \(error.code) \(error.context)")
            }
            let outcome = runs[1].report?.outcome
            #expect(outcome == .confirmed || outcome == .alreadyRunning, "\(what): \(runs[1].outcome)")
            let runsNewImage = world.runsNewImage
            #expect(runsNewImage, what)
        }
        // The transfer retries by itself: only the mark and the confirmation are refused for good.
        #expect(failed <= 4, "\(failed)")
    }

    func ofTheClientAtEveryEvent() throws {
        for event in 1...sessionEvents {
            let world = try world { _ in }
            let runs = try world.run([push, resume], deaths: [event])
            #expect(runs[0].error == .interrupted)
            let report = try #require(runs[1].report, "killed at event \(event): \(runs[1].outcome)")
            #expect(report.outcome == .confirmed || report.outcome == .alreadyRunning, "event \(event)")
            #expect(world.runsNewImage && !world.device.isUnbootable, "event \(event)")
            if runs[1].tally.reports.contains(.phase(.transfer)), let transfer = report.transfer {
                let again = runs[0].tally.sentOffset - transfer.resumedFrom
                #expect(again <= windowBytes, "event \(event): \(again) bytes again")
            }
        }
    }
}
