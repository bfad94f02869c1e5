import Gauntlet
import OTAEngine
import OTASimulator
import OTAUpdate
import Testing

/// Repeats an update with one fault at each possible position.
///
/// Each run must end with the new image confirmed, byte for byte, or with the old image and an error. The device can always boot.
struct Cuts<Kind: Wire> {
    private let world: (FaultPlan) throws -> World<Kind>
    private let push, resume: Kind.Task
    /// The limit of bytes that are sent again after a lost link: the bytes in flight.
    private let windowBytes: Int
    /// The outcome of an update without an error.
    private let outcome: UpdateReport.Outcome
    /// The additional bytes that the device may lose with its power; nil: all bytes.
    private let pageBytes: Int?
    /// The encoder of all clients; nil: the image is sent plain.
    private let encoder: UpdateRunner<VirtualTime>.Encoder?
    /// The bytes in Data values of an update without a fault.
    private let linkBytes: Int
    /// The counts of an update without a fault.
    private let hostEvents, devicePackets, sessionEvents, flashOperations, restarts: Int

    /// - Parameters:
    ///   - push: the update.
    ///   - resume: the update after a killed client.
    ///   - windowBytes: the bytes in flight.
    ///   - pageBytes: the additional bytes that the device may lose with its power; nil: all bytes.
    ///   - leastPackets: the least number of packets to the device in an update without a fault.
    ///   - encoder: the encoder of all clients.
    ///   - world: makes a new world with these faults.
    init(
        of push: Kind.Task, resume: Kind.Task, windowBytes: Int, pageBytes: Int?,
        leastPackets: Int = 250, outcome: UpdateReport.Outcome = .confirmed,
        encoder: UpdateRunner<VirtualTime>.Encoder? = nil,
        world: @escaping (FaultPlan) throws -> World<Kind>
    ) throws {
        (self.push, self.resume, self.windowBytes, self.pageBytes) = (push, resume, windowBytes, pageBytes)
        self.world = world
        self.outcome = outcome
        self.encoder = encoder
        let whole = try world(FaultPlan())
        let before = whole.device.flashOperationCount
        let run = try whole.run([push], encoders: [encoder])[0]
        try #require(run.report?.outcome == outcome)
        #expect((run.report?.transfer?.encoding == .lzma2) == (encoder != nil))
        linkBytes = run.tally.linkBytes
        hostEvents = whole.transport.statistics.hostEvents
        devicePackets = whole.transport.statistics.devicePackets
        sessionEvents = run.tally.events
        flashOperations = whole.device.flashOperationCount - before
        restarts = whole.device.restartCount
        try #require(hostEvents > 30 && devicePackets > leastPackets && sessionEvents > 30 && flashOperations > 25)
    }

    private func world(_ faults: (inout FaultPlan) -> Void) throws -> World<Kind> {
        var plan = FaultPlan()
        faults(&plan)
        return try world(plan)
    }

    /// Checks the conditions that hold after every fault.
    private func check(_ world: World<Kind>, _ run: Run, resent: Int?, _ what: Comment) {
        #expect(!world.device.isUnbootable, what)
        #expect(world.device.flashViolationCount == 0, what)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64, what)
        switch run.outcome {
        case .success(let report):
            #expect(report.outcome == outcome, what)
            #expect(world.runsNewImage, what)
            if let resent {
                #expect((report.transfer?.resentBytes ?? .max) <= resent, what)
                // Each link carries the envelope again.
                let links = world.transport.statistics.links
                #expect(run.tally.linkBytes <= linkBytes + links * 1500 + resent, what)
            }
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
            let run = try world.run([push], encoders: [encoder])[0]
            breaks += run.report?.transfer?.disconnects ?? 0
            check(world, run, resent: windowBytes, "cut after \(place)")
        }
        // The restart breaks the link anyway. The cut after the last answer has no effect.
        #expect(breaks >= places.count - 5)
    }

    /// A power cut during the first boot of the new image ends the trial. Then the device rolls back and the update reports it.
    func ofThePowerAtEveryFlashOperation(_ moment: PowerCut.Moment) throws {
        var (cut, rolledBack) = (0, 0)
        for operation in 1...flashOperations {
            let world = try world { $0.powerCuts = [PowerCut(operation: operation, moment: moment)] }
            let run = try world.run([push], encoders: [encoder])[0]
            if world.device.restartCount > restarts { cut += 1 }
            if run.error == .rolledBack {
                rolledBack += 1
                #expect(world.runsOldImage && !world.device.isUnbootable, "operation \(operation)")
                continue
            }
            let resent = pageBytes.map { windowBytes + $0 }
            check(world, run, resent: resent, "power cut \(moment) operation \(operation) of \(flashOperations)")
        }
        // One operation is the bootloader's mark that the trial was booted. The other is the confirmation.
        #expect(rolledBack <= 2)
        // A power cut directly after the bootloader's mark replaces the restart.
        #expect(cut >= flashOperations - 2)
    }

    /// One flash operation fails with the power on. The first push succeeds or reports an error.
    ///
    /// The second push runs without a fault and ends with the new image.
    func ofTheFlashAtEveryOperation(_ kind: FlashFault.Kind) throws {
        var failed = 0
        for operation in 1...flashOperations {
            let what: Comment = "\(kind), operation \(operation) of \(flashOperations)"
            let world = try world { $0.flashFaults = [FlashFault(operation: operation, kind: kind)] }
            let runs = try world.run([push, resume], encoders: [encoder, encoder])
            #expect(!world.device.isUnbootable, what)
            // After an erase that wrongly reports success, the core writes to bytes that are not erased.
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
        // The transfer retries by itself. Only a failed mark or confirmation ends the push.
        #expect(failed <= 4, "\(failed)")
    }

    func ofTheClientAtEveryEvent() throws { try ofTheClientAtEveryEvent([encoder, encoder]) }

    /// Kills the client at every event. The next client has another encoder, or none.
    ///
    /// - Parameter encoders: the encoders of the killed client and of the next one.
    func ofTheClientAtEveryEvent(_ encoders: [UpdateRunner<VirtualTime>.Encoder?]) throws {
        for event in 1...sessionEvents {
            let world = try world { _ in }
            let runs = try world.run([push, resume], deaths: [event], encoders: encoders)
            #expect(runs[0].error == .interrupted)
            let report = try #require(runs[1].report, "killed at event \(event): \(runs[1].outcome)")
            #expect(report.outcome == outcome || report.outcome == .alreadyRunning, "event \(event)")
            #expect(world.runsNewImage && !world.device.isUnbootable, "event \(event)")
            // The offsets in an encoded image are not those in the image.
            guard encoder == nil else { continue }
            // A firmware loader always gets the image, so a complete image is sent again (docs/decisions/0040-firmware-loaders.md).
            if outcome == .returned, runs[0].tally.sentOffset == world.release.image.count { continue }
            if runs[1].tally.reports.contains(.phase(.transfer)), let transfer = report.transfer {
                let again = runs[0].tally.sentOffset - transfer.resumedFrom
                #expect(again <= windowBytes, "event \(event): \(again) bytes again")
            }
        }
    }
}
