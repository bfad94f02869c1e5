import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Complete updates with the session, the runner, the modelled radio and the device core in C.
@Suite("Updates over the OTA profile") struct UpdateTests {
    @Test("an update ends confirmed without resent bytes")
    func endsConfirmed() throws {
        let world = try World(try ExampleRelease(bytes: 20_000))
        let run = try world.push()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed)
        #expect(report.device.runningVersion == "1.1.0" && report.device.previousVersion == "1.0.0")
        #expect(report.device.securityCounter == 2)
        #expect(report.transfer?.sentBytes == 20_000 && report.transfer?.resentBytes == 0)
        #expect(world.runsNewImage)
    }

    @Test("a second push of the same bundle sends nothing")
    func sendsNothingTwice() throws {
        let world = try World(try ExampleRelease(bytes: 5000))
        let runs = try world.run(
            Array(repeating: .push(world.release.bundle, UpdateOptions()), count: 2))
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .alreadyRunning)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
    }

    @Test("updates with the same seed and faults have the same transcript")
    func sameSeedSameTranscript() throws {
        let release = try ExampleRelease(bytes: 50_000)
        var faults = FaultPlan()
        faults.gap = 0.02
        faults.dropAt = [0.3, 0.7]
        var radio = RadioModel()
        radio.loss = 0.1
        let transcripts = try (0..<3).map { _ in
            let world = try World(release, radio: radio, faults: faults, seed: 7)
            #expect(try world.push().report?.outcome == .confirmed)
            return world.transport.statistics.transcript
        }
        #expect(Set(transcripts).count == 1)
    }

    @Test("an update ends confirmed despite gaps, loss, lost links and a device reset")
    func mendsGapsLossAndBreaks() throws {
        var radio = RadioModel()
        radio.loss = 0.2
        let world = try World(try ExampleRelease(bytes: 100_000), radio: radio, faults: .rough)
        let run = try world.push()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        #expect((report.transfer?.disconnects ?? 0) >= 4)
        #expect((report.transfer?.gaps ?? 0) > 0)
        #expect(run.tally.reports.contains { if case .deviceReset = $0 { true } else { false } })
    }

    @Test("the report has the longest chunk when the second link has shorter values")
    func tellsTheLongestChunkUsed() throws {
        var plan = FaultPlan()
        plan.dropAt = [0.5]
        var faults = WorldFaults()
        faults.valueLengths = [244, 62]
        let world = try World(try ExampleRelease(bytes: 20_000), faults: plan)
        let run = try world.run([Client(.push(world.release.bundle, UpdateOptions()))], through: faults)[0]
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && report.transfer?.disconnects == 1)
        #expect(report.transfer?.chunkSize == 244)
    }

    @Test("an image on trial stays unconfirmed until the confirm task")
    func leavesTheTrialOpen() throws {
        let world = try World(try ExampleRelease(bytes: 5000))
        let push = UpdateTask.push(world.release.bundle, UpdateOptions(ending: .trial))
        let runs = try world.run([push, .confirm, .status])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 60))
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(runs[2].report?.device.state == .idle)
        #expect(runs[2].report?.device.securityCounter == 2)
        #expect(world.runsNewImage)
    }

    /// The trial expires. The device rolls back and keeps the image.
    @Test("a push with resume after an expired trial confirms the image without a transfer")
    func resumesATrialThatEndedByItself() throws {
        let world = try World(try ExampleRelease(bytes: 50_000))
        let push = { UpdateTask.push(world.release.bundle, UpdateOptions(ending: $0)) }
        let runs = try world.run([push(.trial), .status, push(.confirm)], pauses: [.seconds(90)])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 60))
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[2].report?.outcome == .confirmed)
        #expect(runs[2].report?.transfer?.sentBytes == 0)
        #expect(world.runsNewImage)
    }

    @Test("discard returns a device on trial to the old image")
    func discardsATrial() throws {
        let world = try World(try ExampleRelease(bytes: 5000))
        let runs = try world.run([.push(world.release.bundle, UpdateOptions(ending: .trial)), .discard()])
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[1].report?.device.held == nil)
        #expect(world.runsOldImage)
    }

    @Test("a device that goes out of range ends the push with link-lost and keeps the old image")
    func tellsThatAnOutOfReachDeviceMayBeResumed() throws {
        var faults = FaultPlan()
        faults.goneAt = 0.5
        let world = try World(try ExampleRelease(bytes: 20_000), faults: faults)
        #expect(try world.push().error == .linkLost)
        #expect(world.runsOldImage)
    }

    @Test("a battery below the minimum of the bundle is refused with battery-low")
    func needsTheDevicesBattery() throws {
        let world = try World(try ExampleRelease(bytes: 5000, minimumBattery: 50)) { $0.battery = 49 }
        #expect(try world.push().error == .batteryLow)
    }

    @Test("a device without a trial refuses a push with a trial and accepts a permanent one")
    func isPermanentWhereThereIsNoTrial() throws {
        let world = try World(try ExampleRelease(bytes: 5000)) { $0.trialSeconds = 0 }
        let push = { UpdateTask.push(world.release.bundle, UpdateOptions(ending: $0)) }
        let runs = try world.run([push(.confirm), push(.permanent)])
        #expect(runs[0].error == .noTrial)
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(world.runsNewImage)
    }

    @Test(
        "an update ends confirmed at each MTU from 23 to 517 with at most 64 chunks in flight",
        arguments: [23, 50, 185, 247, 498, 517])
    func worksAtAnyMTU(mtu: Int) throws {
        var radio = RadioModel()
        radio.mtu = mtu
        let world = try World(try ExampleRelease(bytes: 5000), radio: radio)
        #expect(try world.push().report?.outcome == .confirmed)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64)
    }
}
