import Gauntlet
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate
import Testing

/// Whole updates over SMP, from the session through the runner and the modelled radio to the virtual device and back.
@Suite struct SMPUpdateTests {
    @Test func endsConfirmed() throws {
        let world = try World(try SMPRelease(bytes: 20_000))
        let run = try world.run()
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .confirmed)
        #expect(report.device.runningVersion == "1.1.0" && report.device.previousVersion == "1.0.0")
        #expect(report.device.product == "virtual_board")
        #expect(report.transfer?.resentBytes == 0 && report.transfer?.gaps == 0)
        #expect(report.transfer?.sentBytes == world.release.image.count)
        #expect(run.tally.reports.count { $0 == .phase(.restart) } == 1)
        #expect(world.runsNewImage && world.device.flashViolationCount == 0)
    }

    @Test func sendsNothingTwice() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([world.push, world.push])
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .alreadyRunning)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
    }

    @Test func leavesTheTrialOpen() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([world.push(UpdateOptions(ending: .trial)), .status, .confirm, .status, .confirm])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 0))
        #expect(runs[1].report?.device.state == .trial)
        #expect(runs[2].report?.outcome == .confirmed)
        #expect(runs[3].report?.device.state == .idle)
        #expect(runs[4].error == .notInTrial)
        #expect(world.runsNewImage)
    }

    @Test func discardsATrialAndAnImage() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([world.push(UpdateOptions(ending: .trial)), .discard, .discard, .discard])
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[1].report?.device.previousVersion == "1.1.0")
        #expect(runs[2].report?.outcome == .done && runs[3].report?.outcome == .done)
        #expect(world.runsOldImage && world.device.heldImage == nil)
    }

    @Test func isPermanentAtOnce() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let run = try world.run(UpdateOptions(ending: .permanent))
        #expect(run.report?.outcome == .confirmed)
        #expect(!run.tally.reports.contains(.phase(.confirm)))
        #expect(world.runsNewImage)
    }

    @Test func onlyUploads() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let uploadOnly = world.push(UpdateOptions(ending: .uploadOnly))
        let runs = try world.run([uploadOnly, uploadOnly, world.push])
        #expect(runs[0].report?.outcome == .done && runs[1].report?.outcome == .done)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
        #expect(runs[2].report?.outcome == .confirmed && runs[2].report?.transfer?.sentBytes == 0)
        #expect(world.runsNewImage)
    }

    /// Upload, list and mark succeed; the bootloader is who refuses.
    @Test(arguments: [UpdateOptions.Ending.confirm, .permanent]) func tellsThatTheKeyIsWrong(
        ending: UpdateOptions.Ending
    ) throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.trustedKeys = [] }
        let run = try world.run(UpdateOptions(ending: ending))
        #expect(run.error == .rolledBack)
        #expect(world.runsOldImage && world.device.heldImage == nil)
    }

    @Test func refusesWhatIsTooLarge() throws {
        let tiny: (inout VirtualSMPConfiguration) -> Void = { $0.layout = FlashLayout(slotSize: 4096) }
        let early = try World(try SMPRelease(bytes: 5000), adjust: tiny)
        let run = try early.run()
        #expect(run.error == .imageTooLarge && !run.tally.reports.contains(.phase(.transfer)))
        // Where the device does not tell, its own answer to the first chunk is the refusal.
        let late = try World(try SMPRelease(bytes: 5000)) {
            tiny(&$0)
            $0.reportsSlots = false
        }
        #expect(try late.run().error == .imageTooLarge)
        let older = try World(try SMPRelease(bytes: 5000)) {
            tiny(&$0)
            ($0.reportsSlots, $0.knowsFirstVersionOnly) = (false, true)
        }
        #expect(try older.run().error == .refusedByPolicy)
    }

    @Test func refusesADowngrade() throws {
        let world = try World(try SMPRelease(bytes: 5000, version: (0, 9, 0, 7)))
        let runs = try world.run([world.push(UpdateOptions(refusesDowngrade: true)), world.push])
        #expect(runs[0].error == .downgrade && !runs[0].tally.reports.contains(.phase(.transfer)))
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(runs[1].report?.device.runningVersion == "0.9.0.7")
        let strict = try World(try SMPRelease(bytes: 5000, version: (1, 0, 0, 1))) { $0.refusesDowngrade = true }
        #expect(try strict.run().error == .downgrade)
    }

    /// Another update waits for its verdict: the device would refuse the first chunk.
    @Test func refusesWhereAnotherUpdateIsUnderWay() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.trustedKeys = [] }
        let other = try SMPRelease(bytes: 3000, version: (2, 0, 0, 0))
        let more = try World(other) { $0.trustedKeys += [world.release.key] }
        let push = UpdateTask.push([SMPImage(world.release.verified)], UpdateOptions())
        let runs = try more.run([more.push(UpdateOptions(ending: .trial)), push, .discard, push])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 0))
        #expect(runs[1].error == .inTrial && !runs[1].tally.reports.contains(.phase(.transfer)))
        #expect(runs[2].report != nil)
        #expect(runs[3].error == .imageTooLarge)
    }

    @Test func worksWithoutParameters() throws {
        let world = try World(try SMPRelease(bytes: 5000)) {
            ($0.reportsParameters, $0.reassembles, $0.bufferSize) = (false, false, 384)
            ($0.reportsSlots, $0.bootloaderMode) = (false, nil)
        }
        let report = try #require(try world.run().report)
        #expect(report.outcome == .confirmed && report.transfer?.chunkSize == 244)
        #expect(world.device.mostPacketsWaiting == 1)
        #expect(world.runsNewImage)
    }

    /// It tells large buffers, and takes each value for a packet: found out by an echo, and never by the image.
    @Test func worksWithoutReassembly() throws {
        let world = try World(try SMPRelease(bytes: 20_000)) { $0.reassembles = false }
        let run = try world.run()
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .confirmed && report.transfer?.chunkSize == 244)
        #expect(report.transfer?.gaps == 0 && report.transfer?.disconnects == 0)
        #expect(world.runsNewImage)
    }

    @Test func saysThatAnImageCanOnlyBeUploaded() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { ($0.marksImages, $0.bootloaderMode) = (false, nil) }
        let runs = try world.run([world.push, world.push(UpdateOptions(ending: .uploadOnly))])
        #expect(runs[0].error == .unsupportedDevice && !runs[0].tally.reports.contains(.phase(.transfer)))
        #expect(runs[1].report?.outcome == .done)
        #expect(world.device.heldImage == world.release.image)
    }

    @Test func saysThatThereIsNoWayBack() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.bootloaderMode = 2 }
        let runs = try world.run([world.push, world.push(UpdateOptions(ending: .permanent))])
        #expect(runs[0].error == .noTrial)
        #expect(runs[1].report?.outcome == .confirmed)
    }

    @Test func demandsABond() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.isAuthenticated = true }
        #expect(try world.run().error == .notPermitted)
        world.device.bond()
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test func speaksTheFirstVersion() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.knowsFirstVersionOnly = true }
        let runs = try world.run([world.push, .discard, .discard])
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .done && runs[2].report?.outcome == .done)
    }

    @Test func hasNoIdentify() throws {
        let world = try World(try SMPRelease(bytes: 100))
        #expect(throws: UpdateError(.unsupportedDevice, "")) { try world.run([.identify(seconds: 1)]) }
        #expect(world.transport.statistics.links == 0)
    }

    /// A slot that takes 20 s to erase, and a client that keeps no more packets in flight than there are buffers.
    @Test func waitsForTheSlotToBeErased() throws {
        let first = try SMPRelease(bytes: 30_000)
        let world = try World(first) {
            $0.erase = .wholeSlot(.seconds(20))
            $0.answerDelay = .milliseconds(60)
        }
        let other = try SMPRelease(bytes: 25_000, version: (1, 2, 0, 0))
        let runs = try world.run([
            world.push(UpdateOptions(ending: .uploadOnly)),
            .push([SMPImage(other.verified)], UpdateOptions(ending: .uploadOnly)),
        ])
        #expect(runs[0].report?.outcome == .done && runs[1].report?.outcome == .done, "\(runs[1].outcome)")
        #expect(runs[1].report.map { ($0.transfer?.duration ?? .zero) > .seconds(20) } == true)
        #expect(world.device.mostPacketsWaiting <= 3)
        #expect(world.device.heldImage == other.image)
    }

    /// Two buffers: the packet and its answer keep them until after the next packet has come.
    @Test("a device that drops whatever comes right after an answer is updated")
    func updatesADeviceThatNeedsAPause() throws {
        for reassembles in [true, false] {
            let world = try World(try SMPRelease(bytes: 40_000)) {
                ($0.bufferCount, $0.bufferSize, $0.releaseDelay) = (2, 512, .milliseconds(45))
                $0.reassembles = reassembles
            }
            let run = try world.run()
            let report = try #require(run.report, "\(run.outcome)")
            #expect(report.outcome == .confirmed && world.runsNewImage)
            #expect(world.device.overflowCount > 0, "the device has to be one that drops")
            #expect(report.transfer?.chunkSize == (reassembles ? 512 : 244))
            #expect((report.transfer?.gaps ?? 0) + (report.transfer?.disconnects ?? 0) < 10)
        }
    }

    @Test func comparesTheFile() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.checksImage = true }
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test func mendsBreaksAndResets() throws {
        var faults = FaultPlan()
        faults.dropAt = [0.1, 0.5, 0.9]
        faults.resetAt = [0.6]
        var radio = RadioModel()
        radio.loss = 0.2
        let world = try World(try SMPRelease(bytes: 100_000), radio: radio, faults: faults)
        let run = try world.run()
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .confirmed && world.runsNewImage)
        #expect((report.transfer?.disconnects ?? 0) >= 4)
        #expect(run.tally.reports.contains { if case .resumed = $0 { true } else { false } })
        #expect(run.tally.reports.contains { if case .deviceReset = $0 { true } else { false } })
    }

    /// Where each value is a packet, one that is lost is sent again.
    @Test func mendsLostPackets() throws {
        var faults = FaultPlan()
        faults.gap = 0.01
        faults.notificationLoss = 0.01
        let world = try World(try SMPRelease(bytes: 60_000), faults: faults) { $0.reassembles = false }
        let run = try world.run()
        #expect(run.report?.outcome == .confirmed, "\(run.outcome)")
        #expect((run.report?.transfer?.gaps ?? 0) > 0)
        #expect(world.runsNewImage)
    }

    /// Where a packet is several values, the device takes the next packet for the rest of one that lost a value in its midst.
    /// It may take that for image bytes; so the image is sent again, or refused in the end, but never said to run.
    @Test(arguments: [true, false]) func saysNothingWrongOfBrokenPackets(checksImage: Bool) throws {
        var faults = FaultPlan()
        faults.gap = 0.004
        let release = try SMPRelease(bytes: 60_000)
        var confirmed = 0
        for seed in 1...20 as ClosedRange<UInt64> {
            let world = try World(release, faults: faults, seed: seed) { $0.checksImage = checksImage }
            let run = try world.run()
            switch run.outcome {
            case .success(let report):
                confirmed += 1
                #expect(report.outcome == .confirmed && world.runsNewImage, "seed \(seed)")
            case .failure(let error):
                #expect(error.code == (checksImage ? .digestMismatch : .rolledBack), "seed \(seed): \(error)")
                #expect(world.runsOldImage, "seed \(seed)")
            }
        }
        #expect(confirmed > (checksImage ? 10 : 5))
    }

    @Test func swapsSlowly() throws {
        let world = try World(try SMPRelease(bytes: 5000)) {
            ($0.swapTime, $0.restartDelay) = (.seconds(60), .seconds(1))
        }
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test func tellsThatAnOutOfReachDeviceMayBeResumed() throws {
        var faults = FaultPlan()
        faults.goneAt = 0.5
        let world = try World(try SMPRelease(bytes: 20_000), faults: faults)
        #expect(try world.run().error == .linkLost)
        #expect(world.runsOldImage)
    }

    @Test(arguments: [103, 120, 185, 247, 498, 517]) func worksAtAnyMTU(mtu: Int) throws {
        var radio = RadioModel()
        radio.mtu = mtu
        for reassembles in [true, false] {
            let world = try World(try SMPRelease(bytes: 5000), radio: radio) { $0.reassembles = reassembles }
            #expect(try world.run().report?.outcome == .confirmed, "\(mtu) \(reassembles)")
        }
    }

    /// A link that carries too little for the packet that opens an upload is given up, and the next one carries more.
    @Test func mendsALinkThatCarriesTooLittle() throws {
        var plan = FaultPlan()
        plan.dropAt = [0.5]
        for lengths in [[244, 244, 97, 244], [244, 244, 20, 244]] {
            var faults = WorldFaults()
            faults.valueLengths = lengths
            let world = try World(try SMPRelease(bytes: 20_000), faults: plan) { $0.reassembles = false }
            let run = try world.run([Client(world.push)], through: faults)[0]
            #expect(run.report?.outcome == .confirmed, "\(run.outcome)")
            #expect(run.report?.transfer?.chunkSize == 244)
        }
    }

    /// The device's timers go off when they are due, those that were overtaken by a packet too.
    @Test func answersWhenItSaid() throws {
        var radio = RadioModel()
        (radio.mtu, radio.interval, radio.loss) = (103, .milliseconds(50), 0.1)
        for seed in 1...20 as ClosedRange<UInt64> {
            let world = try World(try SMPRelease(bytes: 5000), radio: radio, seed: seed) {
                ($0.reassembles, $0.answerDelay) = (false, .milliseconds(33))
            }
            let run = try world.run()
            #expect(run.report?.outcome == .confirmed && run.report?.transfer?.gaps == 0, "seed \(seed)")
        }
    }

    @Test func saysThatPacketsAreTooShort() throws {
        var radio = RadioModel()
        radio.mtu = 23
        let world = try World(try SMPRelease(bytes: 5000), radio: radio) { $0.reportsParameters = false }
        #expect(try world.run().error == .unsupportedDevice)
        // Where packets come in several values the MTU is no matter.
        let whole = try World(try SMPRelease(bytes: 5000), radio: radio)
        #expect(try whole.run().report?.outcome == .confirmed)
    }
}
