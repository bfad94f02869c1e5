import Gauntlet
import OTAEngine
import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// The conformance check of the GATT OTA profile, against the virtual device with the device core, and against the same device with faults.
@Suite("The conformance check of a device") struct DeviceCheckTests {
    private func check(
        _ release: ExampleRelease, withBundle: Bool = true, fault: DeviceFault? = nil, radio: RadioModel = RadioModel(),
        faults: FaultPlan = FaultPlan(), adjust: (inout VirtualDeviceConfiguration) -> Void = { _ in }
    ) throws -> (results: [CheckResult], world: World<ProfileWire>) {
        let world = try World<ProfileWire>(release, radio: radio, faults: faults, adjust: adjust)
        let changes = PacketChanges()
        fault?.plan(changes)
        let time = VirtualTime()
        let base = SimulatedTransport(device: world.device, clock: time, radio: radio, faults: faults, seed: 3)
        let bundle = withBundle ? release.bundle : nil
        let report = try time.run {
            try await UpdateRunner(clock: time).run(
                DeviceCheck(bundle: bundle, firstTag: 250), over: ChangedTransport(base: base, changes: changes),
                interrupts: AsyncStream { _ in })
        }
        return (report.checks, world)
    }

    private func failures(_ results: [CheckResult]) -> [String] {
        results.filter { $0.verdict == .failed }.map { "\($0.rule): \($0.detail ?? "")" }
    }

    @Test("a correct device passes every rule, and keeps its image")
    func correct() throws {
        let (results, world) = try check(ExampleRelease(bytes: 30_000))
        #expect(results.allSatisfy { $0.verdict == .passed }, "\(failures(results))")
        #expect(!world.runsNewImage)
        // Only another test gives a bundle that the device refuses.
        let found = Set(DeviceFault.all.map(\.rule)).union(["envelope-accepted"])
        #expect(results.count == found.count && Set(results.map(\.rule)) == found)
    }

    @Test("a device that runs an image on trial ends the check, and stays on trial")
    func onTrial() throws {
        let release = try ExampleRelease(bytes: 5000)
        let world = try World<ProfileWire>(release)
        _ = try world.push(UpdateOptions(ending: .trial))
        #expect(throws: UpdateError(.inTrial, "")) { try check(world, over: { $0 }) }
        #expect(world.device.bootState?.trial == .running)
    }

    @Test(
        "a device that serves another connection, or is busy for 90 s, ends the check with device-busy",
        arguments: [false, true])
    func busy(answers: Bool) throws {
        let world = try World<ProfileWire>(ExampleRelease(bytes: 5000))
        let changes = PacketChanges()
        if answers {
            changes.answer = { _, bytes in [bytes.prefix(2) + [4]] }
        } else {
            changes.value = { _, bytes, channel in channel == ProfileChannel.progress ? [2] + bytes.dropFirst() : bytes
            }
        }
        #expect(throws: UpdateError(.deviceBusy, "")) {
            try check(world, over: { ChangedTransport(base: $0, changes: changes) })
        }
    }

    @Test("a device that drops each link at the first read ends the check, with failed rules")
    func dropsEachLink() throws {
        var check = DeviceCheck(firstTag: 0)
        var (events, now): ([UpdateEvent], Duration) = ([.started], .zero)
        for _ in 0..<1000 {
            if events.isEmpty {
                now = max(now, try #require(check.deadline))
                events.append(.deadlinePassed)
            }
            for action in check.handle(events.removeFirst(), at: now) {
                switch action {
                case .connect:
                    let channels = Set(VirtualGATT.operations.keys)
                    events.append(.linkUp(LinkProperties(channels: channels, maximumValueLength: 244)))
                case .link, .disconnect: events = [.linkDown(LinkError(.lost, "dropped"))]
                case .finish(let report):
                    #expect(report.checks.contains { $0.verdict == .failed })
                    return
                default: break
                }
            }
        }
        Issue.record("the check does not end")
    }

    @Test("a device that demands pairing ends the check with not-permitted")
    func demandsPairing() throws {
        let world = try World<ProfileWire>(ExampleRelease(bytes: 5000))
        let changes = PacketChanges()
        changes.refused = { _ in .refused(LinkError(.notPermitted, "", remedy: .removeBond), ProfileChannel.control) }
        #expect(throws: UpdateError(.notPermitted, "")) {
            try check(world, over: { ChangedTransport(base: $0, changes: changes) })
        }
    }

    private func check(_ world: World<ProfileWire>, over transport: (any Transport) -> any Transport) throws {
        let time = VirtualTime()
        let over = transport(SimulatedTransport(device: world.device, clock: time))
        _ = try time.run {
            try await UpdateRunner(clock: time).run(
                DeviceCheck(firstTag: 0), over: over, interrupts: AsyncStream { _ in })
        }
    }

    @Test("without a bundle, only the rules for images are skipped")
    func withoutBundle() throws {
        let (results, _) = try check(ExampleRelease(bytes: 30_000), withBundle: false)
        #expect(failures(results) == [])
        #expect(results.contains { $0.verdict == .skipped })
        #expect(results.allSatisfy { $0.verdict == .passed || $0.detail == "needs --bundle" }, "\(results)")
    }

    @Test(
        "a correct device passes with the smallest MTU, with any window, and over a lossy link",
        arguments: [1, 3, 16, 2047])
    func otherDevices(window: Int) throws {
        var (radio, faults) = (RadioModel(), FaultPlan())
        (radio.mtu, radio.loss) = (23, 0.05)
        faults.gap = 0
        let (results, _) = try check(ExampleRelease(bytes: 5000), radio: radio, faults: faults) {
            ($0.window, $0.longestData, $0.offersEncodings, $0.trialSeconds) = (
                window, 20 + window % 200, window != 3, 60
            )
        }
        #expect(failures(results) == [])
    }

    @Test("a device passes if it is slow, and if its flash erases ahead", arguments: [10_000, 1_000_000])
    func slowDevice(flashSpeed: Int) throws {
        let (results, _) = try check(ExampleRelease(bytes: 20_000)) {
            ($0.flashSpeed, $0.chunkTime) = (flashSpeed, .milliseconds(2))
        }
        #expect(failures(results) == [])
    }

    @Test("each fault is found by exactly its rule", arguments: DeviceFault.all)
    func findsFault(fault: DeviceFault) throws {
        let (results, _) = try check(ExampleRelease(bytes: 9000), withBundle: fault.needsBundle, fault: fault)
        #expect(results.filter { $0.verdict == .failed }.map(\.rule) == [fault.rule], "\(failures(results))")
        let failed = results.first { $0.verdict == .failed }
        #expect(failed?.fix?.isEmpty == false && failed?.detail?.isEmpty == false)
    }

    @Test("a bundle for another device fails one rule, which names the status, and the transfer is skipped")
    func foreignBundle() throws {
        let other = try ExampleRelease(bytes: 500)
        let world = try World<ProfileWire>(ExampleRelease(bytes: 600))
        let time = VirtualTime()
        let transport = SimulatedTransport(device: world.device, clock: time)
        let report = try time.run {
            try await UpdateRunner(clock: time).run(
                DeviceCheck(bundle: other.bundle, firstTag: 0), over: transport, interrupts: AsyncStream { _ in })
        }
        #expect(report.checks.filter { $0.verdict == .failed }.map(\.rule) == ["envelope-accepted"])
        #expect(failures(report.checks)[0].contains("7 (the bundle is not signed"))
    }

    @Test("a device that cannot be reached ends the check with the error of the link")
    func unreachable() throws {
        let world = try World<ProfileWire>(ExampleRelease(bytes: 600))
        world.device.suspend()
        let time = VirtualTime()
        let transport = SimulatedTransport(device: world.device, clock: time)
        #expect(throws: UpdateError(.linkLost, "")) {
            try time.run {
                try await UpdateRunner(clock: time).run(
                    DeviceCheck(firstTag: 0), over: transport, interrupts: AsyncStream { _ in })
            }
        }
    }
}
