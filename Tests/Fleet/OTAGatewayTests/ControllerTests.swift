import DescriptorIO
import OTAFirmware
import OTAFleet
import OTASigning
import OTASimulator
import OTAStore
import Testing

@Suite("Controller") struct ControllerTests {
    @Test("the progress is signed by the controller, and is rewritten every 60 s with a higher serial")
    func writes() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(30))
            #expect(try await world.progress(of: rollout)?.serial == 1)
            try await world.time.sleep(for: .seconds(300))
            await controller.kill()
            #expect(try await world.progress(of: rollout)?.serial == 6)
        }
    }

    @Test("one of two controllers writes; the other one leads 35 s to 46 s after the first was killed")
    func takesOver() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            let first = world.controller(instance: 1)
            try await world.time.sleep(for: .seconds(20))
            let second = world.controller(instance: 2)
            try await world.time.sleep(for: .seconds(200))
            #expect(
                !world.notes.all.contains { $0.hasPrefix("controller 2: wrote") || $0.hasPrefix("controller 2: leads") }
            )
            await first.kill()
            let killed = world.time.now
            try await world.wait("a new leader") { world.notes.all.contains("controller 2: leads(true)") }
            #expect(killed.duration(to: world.time.now) >= .seconds(35))
            #expect(killed.duration(to: world.time.now) <= .seconds(46))
            try await world.wait("a write of the new leader") {
                world.notes.all.contains { $0.hasPrefix("controller 2: wrote") }
            }
            await second.kill()
            #expect(!world.notes.all.contains("controller 1: leads(false)"))
        }
    }

    @Test("a progress that a stranger signed is replaced, and does not start a stage")
    func forgery() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            var machine = StageMachine(rollout, progress: nil, memory: SerialMemory())
            let step = machine.step([DeviceRecord](), in: .none, at: Moment(.zero, wall: nil))
            let progress = try #require(step)
            let forged = try SignedRecord(signing: progress, with: world.fleet.bundleKey)
            try await world.fleet.write(forged, .progress, rollout.value.name, to: world.memory)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(30))
            await controller.kill()
            // `progress(of:)` verifies the signature.
            #expect(try await world.progress(of: rollout)?.serial == 1)
            #expect(world.notes.all.contains { $0.contains("refused") })
        }
    }

    @Test("a controller ignores a rollout that names other controllers")
    func otherController() throws {
        let world = try World()
        try world.run {
            let release = try world.fleet.operators.release(
                world.fleet.operators.sign(FleetRelease(of: world.fleet.bundle), with: world.fleet.operatorKey)
                    .encoded())
            let rollout = try Rollout(
                name: #require(RolloutName("t-1")), release: release,
                selection: Selection(product: world.fleet.product), stages: [#require(Stage(.percent(100)))],
                halt: #require(Rollout.Halt(failedPercent: 5, minimum: 2)), attempts: 3,
                enrolment: Enrolment(.bluetooth, .none), salt: Array(repeating: 0, count: 16),
                controllers: [world.fleet.bundleKey.publicKey], created: world.fleet.created,
                expires: world.fleet.created.advanced(by: 1000))
            let signed = try world.fleet.operators.sign(rollout, with: world.fleet.operatorKey)
            try await world.fleet.write(signed, .rollouts, rollout.name, to: world.memory)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(300))
            await controller.kill()
            #expect(world.notes.all == ["controller 1: leads(true)"])
            #expect(try await world.memory.records(in: .progress).map(\.key.name.description) == ["_leader"])
        }
    }

    @Test("a controller writes the progress and counts the devices of a store that has lost its newest records")
    func lostRecords() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        let memory = try #require(world.memory as? MemoryStore)
        try world.run {
            try await world.fleet.publish(in: memory)
            try await world.fleet.write(rollout, to: memory)
            let controller = world.controller()
            try await world.wait("a progress") { try await world.progress(of: rollout) != nil }
            let gateway = try world.gateway("a", hears: [world.device(1): -50])
            try await world.wait("a push") { await !world.air.started.isEmpty }
            try await gateway.stop()
            func counts() async throws -> [Int?] {
                let counts = try await world.progress(of: rollout)?.counts
                return [counts?.done, counts?.waiting]
            }
            try await world.wait("an interrupted update") { try await counts() == [0, 1] }
            let earlier = await memory.snapshot()
            let later = try world.gateway("a", instance: 2, hears: [world.device(1): -50])
            try await world.wait("an updated device") { try await counts() == [1, 0] }
            try await later.stop()
            let serial = try #require(try await world.progress(of: rollout)).serial
            await memory.restore(earlier)
            try await world.wait("the counts of the older records") { try await counts() == [0, 1] }
            try await world.time.sleep(for: .seconds(120))
            #expect(try await counts() == [0, 1])
            #expect(try #require(try await world.progress(of: rollout)).serial > serial + 1)
            await controller.kill()
        }
    }

    @Test(
        "a device whose record cannot be read counts as waiting, and is reported once",
        arguments: ["{}", #"{"schema":1,"device":"sim-1","state":"done"}"#])
    func unreadableDevice(_ text: String) throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            let key = RecordKey(.devices, try #require(RecordName("sim-2")))
            guard case .written(let first) = try await world.memory.write(Array(text.utf8), at: key, expecting: .absent)
            else { throw World.TimedOut() }
            let controller = world.controller()
            try await world.wait("a count") { try await world.progress(of: rollout)?.counts.waiting == 1 }
            let second = try await world.memory.write(Array(text.utf8), at: key, expecting: first)
            try await world.time.sleep(for: .seconds(60))
            #expect(try await world.progress(of: rollout)?.counts.waiting == 1)
            let reports = world.notes.all.filter { $0.contains("sim-2 cannot be read") }
            #expect(reports.count == 1 && reports.allSatisfy { $0.contains("otaflash device release sim-2") })

            guard case .written(let revision) = second else { throw World.TimedOut() }
            let record = try DeviceRecord(device: #require(DeviceID("sim-2"))).encoded()
            _ = try await world.memory.write(record, at: key, expecting: revision)
            try await world.wait("no count") { try await world.progress(of: rollout)?.counts.waiting == 0 }
            await controller.kill()
        }
    }

    @Test("a controller reads the records of the devices only while it leads")
    func followerReadsNoDevices() throws {
        let reads = Guarded(0)
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onRecords: { bucket throws(StoreError) in if bucket == .devices { reads.with { $0 += 1 } } })
        }
        try world.run {
            let leader = world.controller(instance: 1)
            try await world.wait("a leader") { !world.leading.isEmpty }
            let follower = world.controller(instance: 2)
            try await world.time.sleep(for: .seconds(120))
            #expect(reads.with { $0 } == 1)
            await leader.kill()
            try await world.wait("a new leader") { world.leading.contains("controller 2") }
            try await world.time.sleep(for: .seconds(5))
            #expect(reads.with { $0 } == 2)
            await follower.kill()
        }
    }

    @Test("a controller that has not read all devices writes no progress")
    func unreadDevices() throws {
        let isAway = Flag()
        isAway.set()
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onRecords: { bucket throws(StoreError) in
                    if bucket == .devices, isAway.isSet { throw StoreError(.unavailable, "no answer") }
                })
        }
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(60))
            #expect(!world.leading.isEmpty)
            #expect(try await world.progress(of: rollout) == nil)
            isAway.clear()
            try await world.wait("a progress") { try await world.progress(of: rollout) != nil }
            await controller.kill()
        }
    }
}
