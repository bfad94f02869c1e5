import FoundationEssentials
import Glibc
import OTAClient
import OTAEngine
import OTAFirmware
import OTASigning
import OTAUpdate
import Synchronization
import SystemPackage
import Testing

@Suite("Tasks of the client library") struct UpdaterTests {
    /// A folder with virtual devices, and an update that they accept.
    private final class Fixture: Sendable {
        let folder: FilePath
        let update: VerifiedUpdate
        let trust: TrustStore

        init(bytes: Int = 60_000) throws {
            folder = FilePath("/tmp/otaflash-client-\(UUID().uuidString)")
            try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: false)
            let (image, bundle) = (folder.appending("image.bin"), folder.appending("image.otaf"))
            try Data((0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 31) }).write(to: URL(filePath: image.string))
            let key = try PrivateKey.generate()
            trust = try TrustStore([key.publicKey])
            let release = Release(product: ProductName("lamp"), version: SemanticVersion("1.1.0"))
            _ = try BundleSigner(keys: [key]).sign(image, as: release, created: 1, to: bundle, replace: false)
            update = try UpdateFile(parsing: [UInt8](Data(contentsOf: URL(filePath: bundle.string)))).verified(
                by: Verifier(trust: trust))
        }

        deinit { try? FileManager.default.removeItem(atPath: folder.string) }

        var devices: FilePath { folder.appending("devices") }

        func updater(
            _ address: String, bases: BaseImages? = nil, gate: @escaping StageGate = { _, _ in true }
        ) throws -> Updater {
            var options = Updater.Options()
            options.gate = gate
            options.bases = bases
            options.keysOfNewDevice = trust
            options.virtualDeviceFolder = devices
            return Updater(try DeviceAddress(address), options)
        }
    }

    @Test("a push over a link that breaks resumes, reports each step in order, and ends confirmed")
    func resumes() async throws {
        let fixture = try Fixture()
        var steps: [Updater.Step] = []
        let result = try await fixture.updater("sim:?drop-at=0.4&pace=virtual").push(fixture.update) {
            for await step in $0 { steps.append(step) }
        }
        #expect(result.report.outcome == .confirmed && result.report.device.runningVersion == "1.1.0")
        #expect(result.address == "sim:demo" && result.report.transfer?.disconnects == 1)
        #expect(steps.contains { if case .resumed(let offset, 60_000) = $0.progress { offset > 0 } else { false } })
        #expect(
            steps.contains { if case .transferred(60_000, 60_000, _) = $0.progress { true } else { false } })
        #expect(zip(steps, steps.dropFirst()).allSatisfy { $0.time <= $1.time })
    }

    @Test("a push without permission ends after the preflight, and the device has received nothing")
    func notAdmitted() async throws {
        let fixture = try Fixture()
        var steps: [UpdateProgress] = []
        await #expect(throws: UpdateError.self) {
            _ = try await fixture.updater("sim:?pace=virtual", gate: { stage, _ in stage < .sending }).push(
                fixture.update
            ) {
                for await step in $0 { steps.append(step.progress) }
            }
        }
        #expect(steps == [.phase(.connect), .phase(.preflight)])
        let device = try await fixture.updater("sim:?pace=virtual").status().report.device
        #expect(device.runningVersion == "0.0.0" && device.held == nil && device.state == .idle)
    }

    @Test("a push enters each stage once, also if its link breaks; a push that sends nothing only asks the device")
    func stages() async throws {
        let fixture = try Fixture()
        let entered = Mutex<[UpdateStage]>([])
        for _ in 0..<2 {
            let updater = try fixture.updater("sim:?drop-at=0.4&pace=virtual") { stage, _ in
                entered.withLock { $0.append(stage) }
                return true
            }
            _ = try await updater.push(fixture.update)
        }
        #expect(entered.withLock { $0 } == [.asking, .sending, .marked, .restarting, .confirming, .asking])
    }

    @Test("a push that does not read its steps ends all the same")
    func stepsAreOptional() async throws {
        let fixture = try Fixture()
        let result = try await fixture.updater("sim:?pace=virtual").push(fixture.update) { _ in }
        #expect(result.report.outcome == .confirmed)
    }

    @Test("a dry run creates no virtual device, and reports the transfer of the next push")
    func dryRun() async throws {
        let fixture = try Fixture()
        let updater = try fixture.updater("sim:?pace=virtual")
        await #expect(throws: (any Error).self) {
            try await updater.push(fixture.update, UpdateOptions(isDryRun: true))
        }
        #expect(!FileManager.default.fileExists(atPath: fixture.devices.appending("demo").string))
        let stopped = try fixture.updater("sim:?pace=virtual&gone-at=0.5")
        await #expect(throws: UpdateError(.linkLost, "")) { try await stopped.push(fixture.update) }
        let dry = try await updater.push(fixture.update, UpdateOptions(isDryRun: true)).report
        let result = try await updater.push(fixture.update).report
        let offset = try #require(result.transfer?.resumedFrom)
        #expect(offset > 0 && result.outcome == .confirmed)
        var plan = UpdatePlan(resumeFrom: offset, bytes: 60_000 - offset, discards: 0)
        plan.encodedBytes = try #require(result.transfer).encodedBytes
        #expect(dry.outcome == .wouldUpdate(plan))
        #expect(dry.transfer == nil && dry.device.runningVersion == "0.0.0")
    }

    @Test(
        "a base that changes after it was found costs bytes, but not the update",
        arguments: ["rm -f", "echo other >", "truncate -s 9", "rm -f $0; mkfifo"])
    func changedBase(command: String) async throws {
        let fixture = try Fixture()
        let base = fixture.folder.appending("base.bin").string
        try Data((0..<60_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 2) }).write(to: URL(filePath: base))
        let bases = BaseImages(in: [FilePath(base)])
        #expect(bases.images.count == 1)
        #expect(system(command.replacing("$0", with: base) + " " + base) == 0)
        let result = try await fixture.updater("sim:?pace=virtual", bases: bases).push(fixture.update) { steps in
            var notes: [String] = []
            for await step in steps { if case .note(let text) = step.progress { notes.append(text) } }
            #expect(notes.count == 1 && notes.first?.hasPrefix("the base cannot be used: ") == true, "\(notes)")
        }
        let transfer = try #require(result.report.transfer)
        #expect(result.report.outcome == .confirmed && transfer.encoding == .lzma2)
        #expect(transfer.base == nil && transfer.baseRefused == 0)
    }

    @Test("a trial is reported by status, and confirm makes it permanent")
    func confirms() async throws {
        let fixture = try Fixture()
        let pushed = try await fixture.updater("sim:?pace=virtual").push(fixture.update, UpdateOptions(ending: .trial))
        #expect(pushed.report.outcome == .onTrial(seconds: 60))
        let device = try fixture.updater("sim:demo?pace=virtual")
        #expect(try await device.status().report.device.state == .trial)
        #expect(try await device.confirm().report.outcome == .confirmed)
        #expect(try await device.status().report.device.state == .idle)
    }

    @Test("a cancelled push ends with interrupted, and a later push resumes its bytes")
    func resumesAfterACancellation() async throws {
        let fixture = try Fixture()
        let (halves, half) = AsyncStream.makeStream(of: Void.self)
        let push = Task {
            try await fixture.updater("sim:").push(fixture.update) {
                for await step in $0 {
                    if case .transferred(let offset, _, _) = step.progress, offset > 30_000 { half.yield() }
                }
            }
        }
        for await _ in halves { break }
        push.cancel()
        await #expect(throws: UpdateError(.interrupted, "")) { try await push.value }
        let resumed = try await fixture.updater("sim:?pace=virtual").push(fixture.update, UpdateOptions())
        #expect(resumed.report.outcome == .confirmed)
        #expect((resumed.report.transfer?.resumedFrom ?? 0) > 20_000)
    }

    @Test("a device that another task uses is refused with deviceInUse and the id of its process")
    func refusesADeviceInUse() async throws {
        let fixture = try Fixture()
        let lock = try VirtualDevices(in: fixture.devices).lock("demo", mayBeMissing: true)
        let error = await #expect(throws: ClientError.self) {
            try await fixture.updater("sim:?pace=virtual").push(fixture.update)
        }
        withExtendedLifetime(lock) {}
        #expect(error?.code == .deviceInUse && error?.process == getpid())
    }

    // A process that this program is starting has such a copy until it runs its own program.
    @Test("a released lock is free at once, even if its descriptor was copied")
    func aCopyDoesNotKeepTheLock() throws {
        let fixture = try Fixture()
        let devices = try VirtualDevices(in: fixture.devices)
        let copy: CInt
        do {
            let lock = try devices.lock("demo", mayBeMissing: true)
            copy = dup(try #require(Self.descriptor(of: fixture.devices.appending(".demo.lock"))))
            withExtendedLifetime(lock) {}
        }
        defer { _ = close(copy) }
        withExtendedLifetime(try devices.lock("demo", mayBeMissing: true)) {}
    }

    /// The descriptor of this process that refers to this file.
    private static func descriptor(of file: FilePath) -> CInt? {
        let open = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return open.compactMap { CInt($0) }.first {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == file.string
        }
    }

    @Test("an address without a known transport is refused with a hint", arguments: ["", "kitchen", "usb:1", "udp:"])
    func refusesAnAddress(text: String) throws {
        let error = #expect(throws: AddressError.self) { try DeviceAddress(text) }
        #expect(error?.hint.isEmpty == false)
    }
}
