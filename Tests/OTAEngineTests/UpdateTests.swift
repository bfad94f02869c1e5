import Gauntlet
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Whole updates, from the session through the runner and the modelled radio to the device core in C and back.
@Suite struct UpdateTests {
    @Test func endsConfirmed() throws {
        let world = try World(try Release(bytes: 20_000))
        let run = try world.push()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed)
        #expect(report.device.runningVersion == "1.1.0" && report.device.previousVersion == "1.0.0")
        #expect(report.device.securityCounter == 2)
        #expect(report.transfer?.sentBytes == 20_000 && report.transfer?.resentBytes == 0)
        #expect(world.runsNewImage)
    }

    @Test func sendsNothingTwice() throws {
        let world = try World(try Release(bytes: 5000))
        let runs = try world.run(
            Array(repeating: .push(world.release.bundle, UpdateOptions()), count: 2))
        #expect(runs[0].report?.outcome == .confirmed)
        #expect(runs[1].report?.outcome == .alreadyRunning)
        #expect(runs[1].report?.transfer?.sentBytes == 0)
    }

    @Test func sameSeedSameTranscript() throws {
        let release = try Release(bytes: 50_000)
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

    @Test func mendsGapsLossAndBreaks() throws {
        var faults = FaultPlan()
        faults.gap = 0.05
        faults.notificationLoss = 0.05
        faults.dropAt = [0.1, 0.5, 0.9]
        faults.resetAt = [0.6]
        var radio = RadioModel()
        radio.loss = 0.2
        let world = try World(try Release(bytes: 100_000), radio: radio, faults: faults)
        let run = try world.push()
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && world.runsNewImage)
        #expect((report.transfer?.disconnects ?? 0) >= 4)
        #expect((report.transfer?.gaps ?? 0) > 0)
        #expect(run.tally.reports.contains { if case .deviceReset = $0 { true } else { false } })
    }

    /// The second link carries less than the first.
    @Test func tellsTheLongestChunkUsed() throws {
        var plan = FaultPlan()
        plan.dropAt = [0.5]
        var faults = WorldFaults()
        faults.valueLengths = [244, 62]
        let world = try World(try Release(bytes: 20_000), faults: plan)
        let run = try world.run([Client(.push(world.release.bundle, UpdateOptions()))], through: faults)[0]
        let report = try #require(run.report)
        #expect(report.outcome == .confirmed && report.transfer?.disconnects == 1)
        #expect(report.transfer?.chunkSize == 244)
    }

    @Test func leavesTheTrialOpen() throws {
        let world = try World(try Release(bytes: 5000))
        let push = UpdateTask.push(world.release.bundle, UpdateOptions(ending: .trial))
        let runs = try world.run([push, .confirm, .status])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 60))
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(runs[2].report?.device.state == .idle)
        #expect(runs[2].report?.device.securityCounter == 2)
        #expect(world.runsNewImage)
    }

    /// The trial ended by itself, the image is still there: it is tried again, and not sent again.
    @Test func resumesATrialThatEndedByItself() throws {
        let world = try World(try Release(bytes: 50_000))
        let push = { UpdateTask.push(world.release.bundle, UpdateOptions(resume: true, ending: $0)) }
        let runs = try world.run([push(.trial), .status, push(.confirm)], pauses: [.seconds(90)])
        #expect(runs[0].report?.outcome == .onTrial(seconds: 60))
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[2].report?.outcome == .confirmed)
        #expect(runs[2].report?.transfer?.sentBytes == 0)
        #expect(world.runsNewImage)
    }

    @Test func discardsATrial() throws {
        let world = try World(try Release(bytes: 5000))
        let runs = try world.run([.push(world.release.bundle, UpdateOptions(ending: .trial)), .discard])
        #expect(runs[1].report?.device.runningVersion == "1.0.0")
        #expect(runs[1].report?.device.held == nil)
        #expect(world.runsOldImage)
    }

    @Test func tellsThatAnOutOfReachDeviceMayBeResumed() throws {
        var faults = FaultPlan()
        faults.goneAt = 0.5
        let world = try World(try Release(bytes: 20_000), faults: faults)
        #expect(try world.push().error == .linkLost)
        #expect(world.runsOldImage)
    }

    @Test func needsTheDevicesBattery() throws {
        let world = try World(try Release(bytes: 5000, minimumBattery: 50)) { $0.battery = 49 }
        #expect(try world.push().error == .batteryLow)
    }

    @Test func isPermanentWhereThereIsNoTrial() throws {
        let world = try World(try Release(bytes: 5000)) { $0.trialSeconds = 0 }
        let push = { UpdateTask.push(world.release.bundle, UpdateOptions(ending: $0)) }
        let runs = try world.run([push(.confirm), push(.permanent)])
        #expect(runs[0].error == .noTrial)
        #expect(runs[1].report?.outcome == .confirmed)
        #expect(world.runsNewImage)
    }

    @Test(arguments: [23, 50, 185, 247, 498, 517]) func worksAtAnyMTU(mtu: Int) throws {
        var radio = RadioModel()
        radio.mtu = mtu
        let world = try World(try Release(bytes: 5000), radio: radio)
        #expect(try world.push().report?.outcome == .confirmed)
        #expect(world.transport.statistics.maximumChunksInFlight <= 64)
    }
}
