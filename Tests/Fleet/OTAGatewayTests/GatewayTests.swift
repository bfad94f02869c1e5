import DescriptorIO
import OTAFirmware
import OTAFleet
import OTASigning
import OTASimulator
import OTAStore
import StoreContract
import Testing

@Suite("Gateway") struct GatewayTests {
    private func run(
        _ world: World, attempts: Int = 3,
        _ body: @escaping @Sendable (DeviceID, Verified<Rollout>) async throws -> Void
    ) throws { try world.run(attempts: attempts, body) }

    @Test("a heard device is updated once, and the store has its result, an event and the gateway's record")
    func updates() throws {
        let world = try World()
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            try await world.time.sleep(for: .seconds(120))
            let gateways = try await world.memory.records(in: .gateways)
            let text = try String(decoding: #require(gateways.first).bytes, as: UTF8.self)
            #expect(gateways.count == 1 && gateways.first?.key.name.description == "a")
            // Each 30 s after the second record, which the gateway writes 2 s after it hears its first device.
            #expect(
                text == """
                    {"schema":1,"gateway":"a","instance":"00000001","software":"1.0.0","slots":4,"pushing":0,"heard":1,\
                    "at":"2026-11-22T18:02:02Z"}
                    """)
            try await gateway.stop()
            let record = try #require(try await world.record(device))
            #expect(record.version == world.fleet.bundle.manifest.version && record.attempt == 1)
            #expect(await world.air.started == [device])
            #expect(await world.air.confirmations == [device: 1])
            #expect(try await world.events() == ["sim-1 1 updated"])
        }
    }

    @Test("at most as many pushes run at the same time as the gateway has slots")
    func slots() throws {
        let world = try World()
        try run(world) { _, _ in
            var hears: [DeviceID: Int] = [:]
            for number in 0..<7 { hears[try world.device(number)] = -50 - number }
            let gateway = try world.gateway("a", hears: hears, slots: 3)
            try await world.wait("all devices are done") {
                try await world.records().count(where: { $0.state == .done }) == 7
            }
            try await gateway.stop()
            #expect(await world.air.mostActive == 3)
            let order = try (0..<7).map { try world.device($0) }
            #expect(await world.air.started == order, "the strongest signal is first")
        }
    }

    @Test("a device that is out of range gets no push")
    func lost() throws {
        let world = try World()
        try run(world) { device, _ in
            let radio = Radio(air: world.air, hears: [device: -50], product: world.fleet.product, losesAll: true)
            let gateway = try world.gateway("a", instance: 1, devices: radio)
            try await world.time.sleep(for: .seconds(300))
            try await gateway.stop()
            #expect(try await world.record(device) == nil)
        }
    }

    @Test("a progress that is in the store before its rollout counts when the rollout arrives")
    func earlyProgress() throws {
        let world = try World()
        let (device, rollout) = (try world.device(1), try world.fleet.rollout())
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.time.sleep(for: .seconds(60))
            try await world.fleet.write(rollout, to: world.memory)
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            try await gateway.stop()
        }
    }

    // MARK: - Trust

    @Test("each refused record of a rollout is one event, also after a restart of the gateway")
    func refusedRecords() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            let payloads = try [rollout, world.fleet.rollout(attempts: 9)].map { try $0.value.payload() }
            let forged = try payloads.map {
                try SignedRecord(signing: Rollout(payload: $0), with: world.fleet.bundleKey)
            }
            for instance: UInt32 in 1...2 {
                let gateway = try world.gateway("a", instance: instance, hears: [:])
                for record in forged + [forged[0]] {
                    try await world.fleet.write(record, .rollouts, rollout.value.name, to: world.memory)
                    try await world.time.sleep(for: .seconds(10))
                }
                try await gateway.stop()
            }
            let events = try await world.memory.events(after: 0).map(\.event)
            #expect(events.map(\.kind.description) == ["record-untrusted", "record-untrusted"])
            #expect(events.allSatisfy { $0.isAboutRollout && $0.rollout.description == "t-140" })
            let digests = try forged.map { try "_." + Hex.encode(SHA256.digest(of: $0.encoded()).prefix) }
            #expect(events.map(\.device.description) == digests)
        }
    }

    @Test("a bundle that the gateway's own keys do not verify reaches no device, and no device is given up")
    func untrustedBundle() throws {
        let world = try World()
        try run(world) { device, _ in
            let verifier = Verifier(trust: try TrustStore([world.fleet.operatorKey.publicKey]))
            let gateway = try world.gateway("a", hears: [device: -50], verifier: verifier)
            try await world.wait("the event") { try await world.events() == ["_ 0 bad-release"] }
            try await world.time.sleep(for: .seconds(300))
            try await gateway.stop()
            #expect(await world.air.started.isEmpty)
            #expect(try await world.record(device) == nil)
        }
    }

    @Test(
        "a bundle that is not exactly the bundle of the signed release reaches no device",
        arguments: [("\"counter\":7", "\"counter\":8"), ("1.4.0", "1.5.0")])
    func wrongRelease(signed: String, changed: String) throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        try world.run {
            try await world.fleet.publish(in: world.memory) { $0.replacing(signed, with: changed) }
            try await world.fleet.write(rollout, to: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            let device = try world.device(1)
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the event") { try await world.events() == ["_ 0 bad-release"] }
            try await gateway.stop()
            #expect(await world.air.started.isEmpty)
            #expect(try await world.record(device) == nil)
        }
    }

    @Test("a bundle that is missing in the store is read again, and the push starts when it is there")
    func missingBundle() throws {
        let world = try World()
        let rollout = try world.fleet.rollout()
        let late = try World()
        try world.run {
            try await world.fleet.write(rollout, to: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            // Only the release is copied.
            try await world.fleet.publish(in: late.memory)
            let release = try #require(try await late.memory.records(in: .releases).first)
            _ = try await world.memory.write(release.bytes, at: release.key, expecting: .absent)
            let device = try world.device(1)
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.time.sleep(for: .seconds(90))
            #expect(try await world.record(device) == nil)
            let bundle = world.fleet.bundle
            try await world.memory.putObject(
                bundle.envelope.bytes + bundle.image, digest: bundle.bundle.fileDigest)
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            try await gateway.stop()
        }
    }

    @Test("no push starts before the memory of serials is on the disk")
    func memoryFirst() throws {
        let world = try World()
        let diskIsFull = Flag()
        diskIsFull.set()
        struct DiskFull: Error {}
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50]) { _ in
                if diskIsFull.isSet { throw DiskFull() }
            }
            try await world.time.sleep(for: .seconds(120))
            #expect(try await world.record(device) == nil)
            diskIsFull.clear()
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            try await gateway.stop()
        }
    }

    // MARK: - Stop and abort

    @Test(
        "a rollout that is paused or aborted during the write of the lease starts no push",
        arguments: [Rollout.State.paused, .aborted], [true, false])
    func stopsDuringLease(state: Rollout.State, isAcknowledged: Bool) throws {
        let world = try World { time, memory in
            PatchedStore(
                store: memory,
                onAnswer: { access, key throws(StoreError) in
                    guard access == .write, key.bucket == .devices else { return }
                    try? await time.sleep(for: .seconds(4))
                    if !isAcknowledged { throw StoreError(.unavailable, "the answer is lost") }
                })
        }
        try run(world) { device, rollout in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the lease") { try await world.record(device)?.state == .running }
            let stopped = try world.fleet.operators.change(rollout, to: state, with: world.fleet.operatorKey)
            try await world.fleet.write(stopped, .rollouts, rollout.value.name, to: world.memory)
            try await world.time.sleep(for: .seconds(60))
            #expect(await world.air.started.isEmpty)
            try await gateway.stop()
        }
    }

    @Test("a stopped gateway interrupts a transfer, writes 'waiting', and ends within 2 s")
    func stops() throws {
        let world = try World()
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the transfer") { try await world.record(device)?.phase == .transfer }
            let start = world.time.now
            try await gateway.stop()
            #expect(start.duration(to: world.time.now) <= .seconds(2))
            let record = try #require(try await world.record(device))
            #expect(record.state == .waiting && record.reason == .stopped)
            #expect(try await world.events() == ["sim-1 1 gateway-stopped"])
        }
    }

    @Test("a stopped gateway waits for a device on trial, confirms it, and writes 'done'")
    func stopsAfterTrial() throws {
        let world = try World()
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the trial") { try await world.record(device)?.phase == .trial }
            try await gateway.stop()
            #expect(try await world.record(device)?.state == .done)
            #expect(try await world.events() == ["sim-1 1 updated"])
        }
    }

    @Test("a stopped gateway appends an event again that the store did not accept, and ends afterwards")
    func stopsWithEvents() throws {
        let failures = Guarded(0)
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onAppend: { _ throws(StoreError) in
                    guard
                        failures.with({
                            $0 += 1; return $0
                        }) > 2
                    else {
                        throw StoreError(.unavailable, "no answer")
                    }
                })
        }
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the transfer") { try await world.record(device)?.phase == .transfer }
            try await gateway.stop()
            #expect(try await world.events() == ["sim-1 1 gateway-stopped"])
        }
    }

    @Test("an aborted rollout interrupts a transfer")
    func aborts() throws {
        let world = try World()
        try run(world) { device, rollout in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the transfer") { try await world.record(device)?.phase == .transfer }
            let aborted = try world.fleet.operators.change(rollout, to: .aborted, with: world.fleet.operatorKey)
            try await world.fleet.write(aborted, .rollouts, rollout.value.name, to: world.memory)
            try await world.wait("the end") { try await world.record(device)?.state == .waiting }
            #expect(try await world.record(device)?.reason == .aborted)
            try await world.time.sleep(for: .seconds(300))
            try await gateway.stop()
            #expect(await world.air.started == [device])
        }
    }

    @Test("a rollout that is aborted during the write of the lease sends no chunk to the device")
    func abortsDuringLease() throws {
        let leaseIsUnderWay = Flag()
        let world = try World { time, memory in
            PatchedStore(
                store: memory,
                onWrite: { key throws(StoreError) in
                    guard key.bucket == .devices, !leaseIsUnderWay.isSet else { return }
                    leaseIsUnderWay.set()
                    try? await time.sleep(for: .seconds(5))
                })
        }
        try run(world) { device, rollout in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the write of the lease") { leaseIsUnderWay.isSet }
            #expect(try await world.record(device) == nil)
            let aborted = try world.fleet.operators.change(rollout, to: .aborted, with: world.fleet.operatorKey)
            try await world.fleet.write(aborted, .rollouts, rollout.value.name, to: world.memory)
            try await world.wait("the end") { try await world.record(device)?.state == .waiting }
            #expect(try await world.record(device)?.reason == .aborted)
            try await gateway.stop()
            #expect(await world.air.acceptedChunks[device, default: 0] == 0)
        }
    }

    // MARK: - Failures

    @Test("a gateway keeps a result and its event while the store is away, and writes them later")
    func storeAway() throws {
        let world = try World { time, memory in
            FaultyStore(memory, faults: FaultyStore<VirtualTime>.Faults(), seed: 1, clock: time)
        }
        let connection = try #require(world.store as? FaultyStore<VirtualTime>)
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the trial") { try await world.record(device)?.phase == .trial }
            await connection.setPartitioned(true)
            try await world.time.sleep(for: .seconds(600))
            #expect(try await world.record(device)?.state == .running)
            #expect(await world.air.confirmations == [device: 1])
            await connection.setPartitioned(false)
            try await world.wait("the result") { try await world.record(device)?.state == .done }
            try await world.wait("the event") { try await world.events() == ["sim-1 1 updated"] }
            try await gateway.stop()
        }
    }

    @Test(
        "a gateway without the store interrupts a transfer after 20 s, and continues it later without sending a chunk again"
    )
    func storeAwayInTransfer() throws {
        let world = try World { time, memory in
            FaultyStore(memory, faults: FaultyStore<VirtualTime>.Faults(), seed: 1, clock: time)
        }
        let connection = try #require(world.store as? FaultyStore<VirtualTime>)
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50], slots: 1)
            await world.air.slow(device)
            try await world.wait("the transfer") { try await world.record(device)?.phase == .transfer }
            await connection.setPartitioned(true)
            try await world.time.sleep(for: .seconds(23))
            #expect(await world.air.isIdle)
            await connection.setPartitioned(false)
            try await world.wait("the result") { try await world.record(device)?.state == .waiting }
            #expect(try await world.record(device)?.reason == .leaseLost)
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            #expect(await world.air.acceptedChunks == [device: Air.chunks])
            try await gateway.stop()
        }
    }

    @Test("a full store gets one write of a device's record in 60 s, and no push starts")
    func storeFull() throws {
        let writes = Guarded(0)
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onWrite: { key throws(StoreError) in
                    guard key.bucket == .devices else { return }
                    writes.with { $0 += 1 }
                    throw StoreError(.full, "the disk is full")
                })
        }
        try run(world) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.time.sleep(for: .seconds(600))
            try await gateway.stop()
            #expect((5...11).contains(writes.with { $0 }))
            #expect(await world.air.started.isEmpty)
        }
    }
}
