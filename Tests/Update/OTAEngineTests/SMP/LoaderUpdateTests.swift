import Gauntlet
import OTASMP
import OTASimulator
import OTAUpdate
import Testing

/// Complete updates of a virtual device with one slot, through its firmware loader.
@Suite("Updates over SMP of a device with one slot") struct LoaderUpdateTests {
    private static let permanent = UpdateOptions(ending: .permanent)

    private static func world(
        bytes: Int = 20_000, version: (UInt8, UInt8, UInt16, UInt32) = (1, 1, 0, 0), faults: FaultPlan = FaultPlan(),
        _ list: VirtualSMPConfiguration.Loader.List = .both,
        adjust: (inout VirtualSMPConfiguration) -> Void = { _ in }
    ) throws -> World<SMPWire> {
        try World(try SMPRelease(bytes: bytes, version: version, keySeed: 7), faults: faults) {
            $0.loader = VirtualSMPConfiguration.Loader()
            $0.loader?.list = list
            adjust(&$0)
        }
    }

    @Test(
        "a push restarts the device into its loader, sends the image and ends returned",
        arguments: [VirtualSMPConfiguration.Loader.List.both, .applicationOnly],
        [true, false])
    func pushes(_ list: VirtualSMPConfiguration.Loader.List, changesAddress: Bool) throws {
        let world = try Self.world(list) { $0.loader?.changesAddress = changesAddress }
        let run = try world.run(Self.permanent)
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .returned && report.device.runningVersion.isEmpty)
        #expect(report.transfer?.sentBytes == world.release.image.count && report.transfer?.resentBytes == 0)
        #expect(world.runsNewImage && !world.device.runsLoader && world.device.flashViolationCount == 0)
        #expect(world.device.restartCount == 2)
        #expect(run.tally.reports.count { $0 == .phase(.restart) } == 1)
    }

    @Test("a push without --permanent is refused before the device leaves its application")
    func demandsConsent() throws {
        for ending in [UpdateOptions.Ending.confirm, .trial] {
            let world = try Self.world()
            #expect(try world.run(UpdateOptions(ending: ending)).error == .noTrial)
            #expect(world.device.restartCount == 0 && world.runsOldImage)
        }
        let world = try Self.world()
        #expect(try world.run(UpdateOptions(ending: .uploadOnly)).error == .unsupportedDevice)
        #expect(world.device.restartCount == 0 && world.runsOldImage)
    }

    @Test("a dry run changes nothing, with the application and with the loader", arguments: [false, true])
    func dryRun(isInLoader: Bool) throws {
        let world = try Self.world()
        if isInLoader { world.device.enterLoader() }
        let operations = world.device.flashOperationCount
        let run = try world.run(UpdateOptions(ending: .permanent, isDryRun: true))
        let bytes = world.release.image.count
        #expect(run.report?.outcome == .wouldUpdate(UpdatePlan(resumeFrom: nil, bytes: bytes)), "\(run.outcome)")
        #expect(world.device.flashOperationCount == operations && world.device.runsLoader == isInLoader)
    }

    @Test(
        "a push that begins in the loader sends the image even if the list shows it, and never ends already running",
        arguments: [VirtualSMPConfiguration.Loader.List.both, .applicationOnly])
    func beginsInTheLoader(_ list: VirtualSMPConfiguration.Loader.List) throws {
        let world = try Self.world(list)
        #expect(try world.run(Self.permanent).report?.outcome == .returned)
        world.device.enterLoader()
        _ = world.device.poll(at: world.device.now + .seconds(2))
        try #require(world.device.runsLoader)
        let runs = try world.run([.status, world.push, world.push(Self.permanent)])
        #expect(runs[0].report?.device.state == .loader && runs[0].report?.device.runningVersion == "")
        #expect(runs[0].report?.device.slots.first?.version == "1.1.0")
        #expect(runs[0].report?.device.slots.allSatisfy { $0.isActive == nil } == true)
        #expect(runs[1].error == .noTrial)
        #expect(runs[2].report?.outcome == .returned, "\(runs[2].outcome)")
        #expect(runs[2].report?.transfer?.sentBytes == world.release.image.count)
        #expect(world.runsNewImage && !world.device.runsLoader)
    }

    @Test("status, confirm, discard and restart have clear answers, with the application and with the loader")
    func otherTasks() throws {
        let world = try Self.world()
        let runs = try world.run([.status, .confirm, .discard(), .restart])
        #expect(runs[0].report?.device.state == .unknown && runs[0].report?.device.product == "virtual_board")
        #expect(runs[1].error == .notInTrial && runs[2].error == .unsupportedDevice)
        #expect(runs[3].report?.outcome == .done)
        world.device.enterLoader()
        let more = try world.run(
            [.status, .confirm, .discard(), .restart, .status], pauses: [.zero, .zero, .zero, .seconds(2)])
        #expect(more[0].report?.device.state == .loader, "\(more[0].outcome)")
        #expect(more[1].error == .notInTrial && more[2].error == .unsupportedDevice)
        #expect(more[3].report?.outcome == .done && more[4].report?.device.state == .unknown)
        #expect(world.runsOldImage)
    }

    @Test("after a refusal by the loader, the device runs its unchanged application again")
    func returnsAfterARefusal() throws {
        // Only the loader knows the size of the slot.
        let world = try Self.world { $0.layout = FlashLayout(slotSize: 4096) }
        let run = try world.run(Self.permanent)
        #expect(run.error == .imageTooLarge, "\(run.outcome)")
        #expect(!world.device.runsLoader && world.runsOldImage && world.device.restartCount == 2)
        // The session that did not enter the loader leaves the device in it.
        let other = try Self.world { $0.layout = FlashLayout(slotSize: 4096) }
        other.device.enterLoader()
        #expect(try other.run(Self.permanent).error == .imageTooLarge)
        #expect(other.device.runsLoader)
    }

    @Test("a downgrade that only the loader can detect is refused, and the device runs its application again")
    func refusesADowngrade() throws {
        let world = try Self.world(version: (0, 9, 0, 0))
        var options = UpdateOptions(ending: .permanent, refusesDowngrade: true)
        #expect(try world.run(options).error == .targetUnchecked)
        #expect(world.device.restartCount == 0)
        options.acceptsUncheckedTarget = true
        #expect(try world.run(options).error == .downgrade)
        #expect(!world.device.runsLoader && world.runsOldImage)
    }

    @Test(
        "an image with a key that the bootloader does not trust ends image-not-running, and another push repairs the device"
    )
    func wrongKey() throws {
        let world = try Self.world { $0.trustedKeys = [] }
        let run = try world.run(Self.permanent)
        #expect(run.error == .imageNotRunning, "\(run.outcome)")
        #expect(world.device.runsLoader && !world.device.isUnbootable)
    }

    @Test("a device that does not restart into its loader is refused, and its application runs")
    func ignoresTheBootMode() throws {
        let world = try Self.world { $0.loader?.isEnteredOnRequest = false }
        #expect(try world.run(Self.permanent).error == .unsupportedDevice)
        #expect(world.runsOldImage && world.device.restartCount == 3)
    }

    @Test("a device that refuses a name for its loader is refused before it leaves its application")
    func noWayToFindTheLoader() throws {
        let world = try Self.world { $0.loader?.acceptsName = false }
        #expect(try world.run(Self.permanent).error == .unsupportedDevice)
        #expect(world.runsOldImage && world.device.restartCount == 0)
    }

    @Test("the version of the application proves the update: confirmed with it, image-not-running with another one")
    func version() throws {
        let world = try Self.world { $0.identity = VirtualSMPConfiguration.Identity(softwareType: "main") }
        let runs = try world.run([.status, world.push(Self.permanent), .status])
        #expect(runs[0].report?.device.runningVersion == "1.0.0+virtual" && runs[0].report?.device.serial == "0001")
        #expect(runs[1].report?.outcome == .confirmed, "\(runs[1].outcome)")
        #expect(runs[1].report?.device.runningVersion == "1.1.0+virtual")
        #expect(runs[1].report?.device.previousVersion == "1.0.0+virtual")
        #expect(runs[2].report?.device.state == .idle && world.runsNewImage)
        let silent = try Self.world {
            $0.identity = VirtualSMPConfiguration.Identity(softwareType: "main")
            $0.identity?.reportsVersion = false
        }
        #expect(try silent.run(Self.permanent).report?.outcome == .returned)
    }

    @Test("a version of its own that the application reports is no evidence, so the push ends returned")
    func ownVersion() throws {
        for version in ["7.0.0", "1.1.0", "1.0.0-rc1"] {
            let world = try Self.world {
                $0.identity = VirtualSMPConfiguration.Identity(softwareType: "main")
                $0.identity?.ownVersion = version
            }
            let run = try world.run(Self.permanent)
            #expect(run.report?.outcome == .returned, "\(version): \(run.outcome)")
            #expect(world.runsNewImage)
        }
    }

    @Test("a dry run in the loader makes the checks of a push")
    func dryRunChecks() throws {
        let world = try Self.world(version: (0, 9, 0, 0))
        world.device.enterLoader()
        let options = UpdateOptions(ending: .permanent, refusesDowngrade: true, isDryRun: true)
        #expect(try world.run(options).error == .downgrade)
        #expect(try world.run(UpdateOptions(isDryRun: true)).error == .noTrial)
        #expect(world.device.runsLoader)
    }

    @Test("a loader with another address and without the name of the device is not found, and is not changed")
    func unnamedLoader() throws {
        let world = try Self.world { $0.loader?.changesAddress = true }
        world.device.enterLoader()
        let operations = world.device.flashOperationCount
        #expect(try world.run(Self.permanent).report == nil)
        #expect(world.device.flashOperationCount == operations && world.device.runsLoader)
        let run = try world.healed(seed: 1).run(Self.permanent)
        #expect(run.report?.outcome == .returned && world.runsNewImage, "\(run.outcome)")
    }

    @Test("a loader with another address that loses its power has no name, and its own address finds it")
    func losesItsName() throws {
        var faults = FaultPlan()
        faults.powerCuts = [PowerCut(operation: 40, moment: .before)]
        let world = try Self.world(bytes: 60_000, faults: faults) {
            $0.loader?.changesAddress = true
        }
        #expect(try world.run(Self.permanent).error == .linkLost)
        #expect(world.device.runsLoader && !world.runsOldImage)
        let run = try world.healed(seed: 1).run(Self.permanent)
        #expect(run.report?.outcome == .returned && world.runsNewImage, "\(run.outcome)")
    }

    @Test("a downgrade is refused before the restart into the loader if the application reports its version")
    func refusesADowngradeEarly() throws {
        let world = try Self.world(version: (0, 9, 0, 0)) {
            $0.identity = VirtualSMPConfiguration.Identity(softwareType: "main")
        }
        #expect(try world.run(UpdateOptions(ending: .permanent, refusesDowngrade: true)).error == .downgrade)
        #expect(world.device.restartCount == 0)
    }

    @Test("after a killed push, the next one finds the loader and resumes the upload", arguments: [false, true])
    func resumesAfterAKill(changesAddress: Bool) throws {
        let world = try Self.world(bytes: 60_000) { $0.loader?.changesAddress = changesAddress }
        let runs = try world.run([world.push(Self.permanent), world.push(Self.permanent)], deaths: [45])
        #expect(runs[0].error == .interrupted)
        let report = try #require(runs[1].report, "\(runs[1].outcome)")
        #expect(report.outcome == .returned && (report.transfer?.resumedFrom ?? 0) > 1000)
        #expect(world.runsNewImage && !world.device.runsLoader)
    }
}

/// 60 KiB to a device with one slot.
@Suite("Faults at every position of an update through a firmware loader", .serialized) struct ExhaustiveLoaderCutTests {
    private let cuts: Cuts<SMPWire>

    init() throws {
        let release = try SMPRelease(bytes: 60 * 1024)
        let push = UpdateTask.push([SMPImage(release.verified)], UpdateOptions(ending: .permanent))
        cuts = try Cuts(of: push, resume: push, windowBytes: 3 * 2475 + 32, pageBytes: nil, outcome: .returned) {
            try World(release, faults: $0) { $0.loader = VirtualSMPConfiguration.Loader() }
        }
    }

    @Test("an update through a loader ends returned when the link is lost after any event of the host")
    func theLinkIsCutAfterEveryEventOfTheHost() throws { try cuts.ofTheLinkAfterEveryEventOfTheHost() }

    @Test("an update through a loader ends returned when the link is lost after any packet to the device")
    func theLinkIsCutAfterEveryPacketToTheDevice() throws { try cuts.ofTheLinkAfterEveryPacketToTheDevice() }

    @Test(
        "an update through a loader ends returned when the device loses power at any flash operation",
        arguments: PowerCut.Moment.allCases)
    func theDeviceLosesPowerAtEveryFlashOperation(moment: PowerCut.Moment) throws {
        try cuts.ofThePowerAtEveryFlashOperation(moment)
    }

    @Test("the next push resumes or repeats an update through a loader whose client was killed at any event")
    func theClientIsKilledAtEveryEvent() throws { try cuts.ofTheClientAtEveryEvent() }
}
