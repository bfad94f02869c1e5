import Gauntlet
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate
import Testing

/// Complete updates over SMP with the session, the runner, the modelled radio and the virtual device.
@Suite("Updates over SMP") struct SMPUpdateTests {
    @Test("an SMP update ends confirmed without resent bytes and with one restart")
    func endsConfirmed() throws {
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

    @Test("a second push of the same image sends nothing")
    func sendsNothingTwice() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([world.push, world.push])
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .alreadyRunning)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
    }

    @Test("an image on trial stays unconfirmed until the confirm task, and a second confirm is refused")
    func leavesTheTrialOpen() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([world.push(UpdateOptions(ending: .trial)), .status, .confirm, .status, .confirm])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 0))
        #expect(runs[1].report?.device.state == .trial)
        #expect(runs[2].report?.outcome == .confirmed)
        #expect(runs[3].report?.device.state == .idle)
        #expect(runs[4].error == .notInTrial)
        #expect(world.runsNewImage)
    }

    @Test("discard ends a trial, then deletes the image only if the task says so, then has nothing to do")
    func discardsATrialAndAnImage() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let runs = try world.run([
            world.push(UpdateOptions(ending: .trial)), .discard(), .discard(), .discard(erasesImage: true), .discard(),
        ])
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[1].report?.device.previousVersion == "1.1.0")
        #expect(runs[2].error == .slotHoldsImage)
        #expect(runs[3].report?.erased?.held?.version == "1.1.0" && runs[4].report?.erased?.wasEmpty == true)
        #expect(world.runsOldImage && world.device.heldImage == nil)
    }

    @Test("a permanent push ends confirmed without a confirm phase")
    func isPermanentAtOnce() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let run = try world.run(UpdateOptions(ending: .permanent))
        #expect(run.report?.outcome == .confirmed)
        #expect(!run.tally.reports.contains(.phase(.confirm)))
        #expect(world.runsNewImage)
    }

    @Test("an upload-only push does not boot the image, and the next push boots it without a transfer")
    func onlyUploads() throws {
        let world = try World(try SMPRelease(bytes: 5000))
        let uploadOnly = world.push(UpdateOptions(ending: .uploadOnly))
        let runs = try world.run([uploadOnly, uploadOnly, world.push])
        #expect(runs[0].report?.outcome == .done && runs[1].report?.outcome == .done)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
        #expect(runs[2].report?.outcome == .confirmed && runs[2].report?.transfer?.sentBytes == 0)
        #expect(world.runsNewImage)
    }

    /// Upload, list and mark succeed. The bootloader refuses the image.
    @Test(
        "an image with a key that the bootloader does not trust ends rolled-back",
        arguments: [UpdateOptions.Ending.confirm, .permanent])
    func tellsThatTheKeyIsWrong(ending: UpdateOptions.Ending) throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.trustedKeys = [] }
        let run = try world.run(UpdateOptions(ending: ending))
        #expect(run.error == .rolledBack)
        #expect(world.runsOldImage && world.device.heldImage == nil)
    }

    @Test("an image larger than the slot is refused before the transfer, or by the device at the first chunk")
    func refusesWhatIsTooLarge() throws {
        let tiny: (inout VirtualSMPConfiguration) -> Void = { $0.layout = FlashLayout(slotSize: 4096) }
        let early = try World(try SMPRelease(bytes: 5000), adjust: tiny)
        let run = try early.run()
        #expect(run.error == .imageTooLarge && !run.tally.reports.contains(.phase(.transfer)))
        // A device that does not report its slots refuses the first chunk.
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

    @Test("a downgrade is refused by option or by the device, and accepted otherwise")
    func refusesADowngrade() throws {
        let world = try World(try SMPRelease(bytes: 5000, version: (0, 9, 0, 7)))
        let runs = try world.run([world.push(UpdateOptions(refusesDowngrade: true)), world.push])
        #expect(runs[0].error == .downgrade && !runs[0].tally.reports.contains(.phase(.transfer)))
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(runs[1].report?.device.runningVersion == "0.9.0.7")
        let strict = try World(try SMPRelease(bytes: 5000, version: (1, 0, 0, 1))) { $0.refusesDowngrade = true }
        #expect(try strict.run().error == .downgrade)
    }

    /// Another image is on trial. The device would refuse the first chunk.
    @Test("a push is refused with in-trial before the transfer while another image is on trial")
    func refusesWhereAnotherUpdateIsUnderWay() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.trustedKeys = [] }
        let other = try SMPRelease(bytes: 3000, version: (2, 0, 0, 0))
        let more = try World(other) { $0.trustedKeys += [world.release.key] }
        let push = UpdateTask.push([SMPImage(world.release.verified)], UpdateOptions())
        let runs = try more.run([more.push(UpdateOptions(ending: .trial)), push, .discard(), push])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 0))
        #expect(runs[1].error == .inTrial && !runs[1].tally.reports.contains(.phase(.transfer)))
        #expect(runs[2].report != nil)
        #expect(runs[3].error == .imageTooLarge)
    }

    @Test("a device that does not report its buffers and slots receives one packet of 244 bytes at a time")
    func worksWithoutParameters() throws {
        let world = try World(try SMPRelease(bytes: 5000)) {
            ($0.reportsParameters, $0.reassembles, $0.bufferSize) = (false, false, 384)
            ($0.reportsSlots, $0.bootloaderMode) = (false, nil)
        }
        let report = try #require(try world.run().report)
        #expect(report.outcome == .confirmed && report.transfer?.chunkSize == 244)
        #expect(world.device.mostPacketsWaiting == 1)
        #expect(world.runsNewImage)
    }

    /// The device reports large buffers, but each value must be a complete packet. The host detects this with an echo before the transfer.
    @Test("a device without reassembly receives chunks of 244 bytes without gaps")
    func worksWithoutReassembly() throws {
        let world = try World(try SMPRelease(bytes: 20_000)) { $0.reassembles = false }
        let run = try world.run()
        let report = try #require(run.report, "\(run.outcome)")
        #expect(report.outcome == .confirmed && report.transfer?.chunkSize == 244)
        #expect(report.transfer?.gaps == 0 && report.transfer?.disconnects == 0)
        #expect(world.runsNewImage)
    }

    @Test("a device that cannot mark images is refused before the transfer, except for upload-only")
    func saysThatAnImageCanOnlyBeUploaded() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { ($0.marksImages, $0.bootloaderMode) = (false, nil) }
        let runs = try world.run([world.push, world.push(UpdateOptions(ending: .uploadOnly))])
        #expect(runs[0].error == .unsupportedDevice && !runs[0].tally.reports.contains(.phase(.transfer)))
        #expect(runs[1].report?.outcome == .done)
        #expect(world.device.heldImage == world.release.image)
    }

    @Test("a bootloader that cannot roll back is refused with no-trial, except for a permanent push")
    func saysThatThereIsNoWayBack() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.bootloaderMode = 2 }
        let runs = try world.run([world.push, world.push(UpdateOptions(ending: .permanent))])
        #expect(runs[0].error == .noTrial)
        #expect(runs[1].report?.outcome == .confirmed)
    }

    @Test("a device that requires a bond refuses the push with not-permitted until it is bonded")
    func demandsABond() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.isAuthenticated = true }
        #expect(try world.run().error == .notPermitted)
        world.device.bond()
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test("push and discard work with a device that supports only SMP version 1")
    func speaksTheFirstVersion() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.knowsFirstVersionOnly = true }
        let runs = try world.run([world.push, .discard(erasesImage: true), .discard()])
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .done && runs[2].report?.outcome == .done)
    }

    @Test(
        "serial recovery, which lists no flags: only an upload and a restart are possible, and rounded answers are no gaps",
        arguments: [true, false])
    func recovers(listsDigests: Bool) throws {
        let world = try World(try SMPRelease(bytes: 20_000)) {
            ($0.listsFlags, $0.listsDigests, $0.marksImages, $0.bootloaderMode) = (false, listsDigests, false, nil)
            ($0.storedUnit, $0.bufferCount, $0.reportsBoard) = (8, 2, false)
        }
        let upload = world.push(UpdateOptions(ending: .uploadOnly))
        let runs = try world.run([.status, world.push, upload, .confirm, .discard(), .restart])
        let status = try #require(runs[0].report?.device)
        #expect(status.state == .unknown && status.runningVersion.isEmpty)
        #expect(
            status.slots.allSatisfy {
                $0.isConfirmed == nil && $0.isBootable == nil && ($0.digest != nil) == listsDigests
            })
        #expect(runs[1].error == .unsupportedDevice && world.device.counters.uploads == 1)
        #expect(runs[2].report?.outcome == .done, "\(runs[2].outcome)")
        #expect(runs[2].report?.transfer?.gaps == 0 && runs[2].report?.transfer?.resentBytes == 0)
        #expect(runs[3].error == .unsupportedDevice && runs[4].error == .unsupportedDevice)
        #expect(runs[5].report?.outcome == .done)
    }

    @Test("identify is refused without a link")
    func hasNoIdentify() throws {
        let world = try World(try SMPRelease(bytes: 100))
        #expect(throws: UpdateError(.unsupportedDevice, "")) { try world.run([.identify(seconds: 1)]) }
        #expect(world.transport.statistics.links == 0)
    }

    /// The device erases the whole slot in 20 s. The client must not send more packets than the device has buffers.
    @Test("a push waits 20 s for the erase of the slot without filling the buffers of the device")
    func waitsForTheSlotToBeErased() throws {
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

    /// The packet and its answer use both buffers until after the next packet arrives.
    @Test("a push ends confirmed on a device that drops each packet that arrives directly after an answer")
    func updatesADeviceThatNeedsAPause() throws {
        for reassembles in [true, false] {
            let world = try World(try SMPRelease(bytes: 40_000)) {
                ($0.bufferCount, $0.bufferSize, $0.releaseDelay) = (2, 512, .milliseconds(45))
                $0.reassembles = reassembles
            }
            let run = try world.run()
            let report = try #require(run.report, "\(run.outcome)")
            #expect(report.outcome == .confirmed && world.runsNewImage)
            #expect(world.device.overflowCount > 0, "the device dropped no packet")
            #expect(report.transfer?.chunkSize == (reassembles ? 512 : 244))
            #expect((report.transfer?.gaps ?? 0) + (report.transfer?.disconnects ?? 0) < 10)
        }
    }

    /// The device has 4 buffers of 384 bytes and does not report them. It answers several packets at once with *no memory* or not at all.
    ///
    /// If the first chunk arrives while the buffers hold the echoes, it is lost, and the push starts 10 s later.
    @Test(
        "a push to a device that refuses one of several echoes starts without a stall of 10 s",
        arguments: [(0, 12_000.0), (10, 12_000), (27, 6000), (40, 4500), (45, 4000), (60, 3100)])
    func waitsForTheLastEcho(release: Int, leastRate: Double) throws {
        var radio = RadioModel()
        radio.mtu = 247
        let world = try World(try SMPRelease(bytes: 100 * 1024), radio: radio) {
            ($0.reportsParameters, $0.reassembles, $0.bufferSize, $0.bufferCount) = (false, false, 384, 4)
            ($0.answerDelay, $0.releaseDelay) = (.milliseconds(2), .milliseconds(release))
        }
        let run = try world.run()
        let transfer = try #require(run.report?.transfer, "\(run.outcome)")
        #expect(run.report?.outcome == .confirmed && transfer.disconnects == 0)
        let rate = Double(transfer.imageBytes) / (transfer.duration / .seconds(1))
        #expect(rate >= leastRate, "\(rate) \(transfer.gaps)")
    }

    /// The device reports long buffers, but drops the packets that are longer than its real ones.
    @Test(
        "a push ends confirmed on a device that drops packets above its real limit, in packets of at least half of the limit",
        arguments: [128, 200, 300, 700, 1236, 1237, 2474, 2475])
    func shortensThePackets(real: Int) throws {
        for reassembles in [true, false] {
            let world = try World(try SMPRelease(bytes: 40_000)) {
                ($0.packetLimit, $0.reassembles) = (real, reassembles)
            }
            let run = try world.run()
            let report = try #require(run.report, "\(run.outcome)")
            #expect(report.outcome == .confirmed && world.runsNewImage)
            let used = report.transfer?.chunkSize ?? 0
            #expect(used <= real && 2 * used >= min(real, reassembles ? 2475 : 244) || used == 128, "\(used)")
            #expect((report.transfer?.duration ?? .zero) < .seconds(200), "\(used)")
        }
    }

    @Test("a push ends confirmed on a device that checks the digest of the uploaded image")
    func comparesTheFile() throws {
        let world = try World(try SMPRelease(bytes: 5000)) { $0.checksImage = true }
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test("an SMP update ends confirmed despite loss, lost links and a device reset")
    func mendsBreaksAndResets() throws {
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

    /// Each value is a complete packet, so a lost packet is sent again.
    @Test("an SMP update ends confirmed although packets and answers are lost")
    func mendsLostPackets() throws {
        var faults = FaultPlan()
        faults.gap = 0.01
        faults.notificationLoss = 0.01
        let world = try World(try SMPRelease(bytes: 60_000), faults: faults) { $0.reassembles = false }
        let run = try world.run()
        #expect(run.report?.outcome == .confirmed, "\(run.outcome)")
        #expect((run.report?.transfer?.gaps ?? 0) > 0)
        #expect(world.runsNewImage)
    }

    /// A packet has several values. If one value is lost, the device reads the next packet as the rest of the damaged one.
    ///
    /// The device may write these bytes to the image. Then the image is sent again or refused, but the push never reports success.
    @Test(
        "a push never reports success for an image that was damaged by a lost part of a packet",
        arguments: [true, false])
    func saysNothingWrongOfBrokenPackets(checksImage: Bool) throws {
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

    @Test("a push ends confirmed on a device that swaps images for 60 s")
    func swapsSlowly() throws {
        let world = try World(try SMPRelease(bytes: 5000)) {
            ($0.swapTime, $0.restartDelay) = (.seconds(60), .seconds(1))
        }
        #expect(try world.run().report?.outcome == .confirmed)
    }

    @Test("a device that goes out of range ends the SMP push with link-lost and keeps the old image")
    func tellsThatAnOutOfReachDeviceMayBeResumed() throws {
        var faults = FaultPlan()
        faults.goneAt = 0.5
        let world = try World(try SMPRelease(bytes: 20_000), faults: faults)
        #expect(try world.run().error == .linkLost)
        #expect(world.runsOldImage)
    }

    @Test(
        "an SMP update ends confirmed at each MTU from 103 to 517, with and without reassembly",
        arguments: [103, 120, 185, 247, 498, 517])
    func worksAtAnyMTU(mtu: Int) throws {
        var radio = RadioModel()
        radio.mtu = mtu
        for reassembles in [true, false] {
            let world = try World(try SMPRelease(bytes: 5000), radio: radio) { $0.reassembles = reassembles }
            #expect(try world.run().report?.outcome == .confirmed, "\(mtu) \(reassembles)")
        }
    }

    /// The third link is too short for the packet that starts an upload. The host closes it, and the next link carries more.
    @Test("a push reconnects when the values of a link are too short for the first packet of an upload")
    func mendsALinkThatCarriesTooLittle() throws {
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

    /// A timer of the device fires when it is due, also after a packet arrives before it.
    @Test("a device with slow answers is updated without gaps at a small MTU with loss")
    func answersWhenItSaid() throws {
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

    @Test("a device with packets that are too short for SMP is refused, unless it reassembles packets")
    func saysThatPacketsAreTooShort() throws {
        var radio = RadioModel()
        radio.mtu = 23
        let world = try World(try SMPRelease(bytes: 5000), radio: radio) { $0.reportsParameters = false }
        #expect(try world.run().error == .unsupportedDevice)
        // With reassembly a packet can have several values, so the MTU does not matter.
        let whole = try World(try SMPRelease(bytes: 5000), radio: radio)
        #expect(try whole.run().report?.outcome == .confirmed)
    }
}
