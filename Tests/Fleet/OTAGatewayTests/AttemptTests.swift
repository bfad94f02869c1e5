import OTAFirmware
import OTAFleet
import OTASigning
import OTASimulator
import OTAStore
import StoreContract
import Testing

@Suite("Attempts of a gateway that end without a result") struct AttemptTests {
    @Test(
        "a device that does not answer gives its place to a waiting device after 10 s, unless it is a Bluetooth device",
        arguments: [("udp", 2, 11), ("ble", 2, 64), ("udp", 1, 64)])
    func silentDevice(kind: String, devices: Int, seconds: Int) throws {
        let world = try World()
        let hears = try Dictionary(
            uniqueKeysWithValues: (1...devices).map { (try #require(DeviceID("\(kind)-AABBCCDDEE0\($0)")), -50) })
        let radio = Radio(air: world.air, hears: hears, product: world.fleet.product, isRadio: false)
        try world.run(attempts: 3) { _, _ in
            for device in hears.keys { await world.air.silence(device) }
            let gateway = try world.gateway("a", instance: 1, devices: radio, slots: 1)
            try await world.wait("the push") { try await world.records().first?.state == .running }
            let start = world.time.now
            try await world.wait("the end of the push") {
                try await world.records().contains { $0.state == .waiting }
            }
            let duration = start.duration(to: world.time.now) / .seconds(1)
            #expect((Double(seconds) - 2...Double(seconds) + 2).contains(duration))
            let record = try await world.records().first { $0.state == .waiting }
            #expect(record?.reason == .noAnswer && record?.retryAfter == 60)
            try await world.wait("the next push") { await world.air.started.count == 2 }
            try await gateway.stop()
        }
    }

    @Test(
        "an aborted rollout confirms a device that it left on trial, and sends no image again if the trial has ended",
        arguments: [(3600, 1), (30, 0)])
    func abortsOnTrial(trial: Int, confirmations: Int) throws {
        let world = try World()
        try world.run(attempts: 3) { device, rollout in
            let gateway = try world.gateway("a", hears: [device: -50])
            await world.air.loseLink(onTrialOf: device, seconds: trial)
            try await world.wait("the lost link") { try await world.record(device)?.state == .waiting }
            #expect(try await world.record(device)?.phase == .trial)
            let aborted = try world.fleet.operators.change(rollout, to: .aborted, with: world.fleet.operatorKey)
            try await world.fleet.write(aborted, .rollouts, rollout.value.name, to: world.memory)
            try await world.time.sleep(for: .seconds(3600))
            try await gateway.stop()
            let record = try #require(try await world.record(device))
            #expect(record.state == (confirmations == 1 ? .done : .waiting) && record.phase == nil)
            #expect(record.reason == (confirmations == 1 ? nil : .notInTrial))
            #expect(await world.air.confirmations[device, default: 0] == confirmations)
            #expect(await world.air.started == [device, device])
            #expect(await world.air.acceptedChunks == [device: Air.chunks])
        }
    }

    @Test(
        "a result that was lost with a killed gateway is read from the device again, without a second image",
        arguments: ["a", "b"])
    func lostResult(next: String) throws {
        let world = try World { time, memory in
            FaultyStore(memory, faults: FaultyStore<VirtualTime>.Faults(), seed: 1, clock: time)
        }
        let connection = try #require(world.store as? FaultyStore<VirtualTime>)
        try world.run(attempts: 1) { device, _ in
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the trial") { try await world.record(device)?.phase == .trial }
            await connection.setPartitioned(true)
            try await world.wait("the confirmation") { await world.air.confirmations == [device: 1] }
            try await world.time.sleep(for: .seconds(5))
            await gateway.kill()
            await connection.setPartitioned(false)
            #expect(try await world.record(device)?.state == .running)
            let second = try world.gateway(next, instance: 2, hears: [device: -50])
            try await world.wait("the result") { try await world.record(device)?.state == .done }
            try await second.stop()
            #expect(try await world.record(device)?.version == world.fleet.bundle.manifest.version)
            #expect(await world.air.started == [device, device])
            #expect(await world.air.confirmations == [device: 1])
            #expect(await world.air.acceptedChunks == [device: Air.chunks])
            #expect(try await world.events() == ["sim-1 2 updated"])
        }
    }
}
