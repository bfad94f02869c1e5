import OTAFirmware
import OTAFleet
import OTASimulator
import OTAStore
import OTAUpdate
import StoreContract
import Testing

@Suite("Fleet of gateways and a controller") struct FleetTests {
    /// Twenty devices. Gateway a hears the first 14, gateway b the last 14.
    private func devices(_ world: World) throws -> (all: [DeviceID], a: [DeviceID: Int], b: [DeviceID: Int]) {
        let all = try (0..<20).map { try world.device($0) }
        func hears(_ some: some Sequence<DeviceID>, _ first: Int) -> [DeviceID: Int] {
            Dictionary(uniqueKeysWithValues: some.enumerated().map { ($1, first - $0) })
        }
        return (all, hears(all.prefix(14), -50), hears(all.suffix(14), -52))
    }

    private func stages(_ canary: some Sequence<DeviceID>) throws -> [Stage] {
        [
            try #require(Stage(.devices(Array(canary)), minimum: 3, soakSeconds: 60)),
            try #require(Stage(.percent(50), soakSeconds: 60)), try #require(Stage(.percent(100))),
        ]
    }

    @Test(
        "two gateways and a controller: each of 20 devices is confirmed once, stage after stage",
        arguments: StoreKind.allCases)
    func all(_ kind: StoreKind) async throws {
        let folder = try TemporaryFolder()
        let world = try World(local: await kind.open(in: folder))
        let (all, a, b) = try devices(world)
        let rollout = try world.fleet.rollout(stages: stages(all.prefix(3)))
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            let gateways = [
                try world.gateway("a", instance: 1, hears: a, slots: 3),
                try world.gateway("b", instance: 2, hears: b, slots: 3),
            ]
            try await world.wait("the second stage") { try await world.progress(of: rollout)?.stage == 1 }
            #expect(Set(await world.air.started) == Set(all.prefix(3)), "only the first stage has started")
            try await world.wait("all devices are done") {
                try await world.records().count(where: { $0.state == .done }) == 20
            }
            try await world.wait("the counts") { try await world.progress(of: rollout)?.counts.done == 20 }
            for gateway in gateways { try await gateway.stop() }
            await controller.kill()
            #expect(await world.air.confirmations == Dictionary(uniqueKeysWithValues: all.map { ($0, 1) }))
            #expect(await world.air.acceptedChunks.values.allSatisfy { $0 == Air.chunks })
            #expect(await world.air.started.count == 20, "no device is contacted twice")
            #expect(try await Set(world.events()) == Set(all.map { "\($0) 1 updated" }))
        }
    }

    @Test("all devices are confirmed once over a store that loses messages", arguments: 1...5)
    func faults(seed: Int) throws {
        var faults = FaultyStore<VirtualTime>.Faults()
        faults.lostAcknowledgement = 0.1
        faults.lostRequest = 0.1
        faults.lag = .milliseconds(800)
        let world = try World { [faults] time, memory in
            FaultyStore(memory, faults: faults, seed: UInt64(seed), clock: time)
        }
        let (all, a, b) = try devices(world)
        let rollout = try world.fleet.rollout(stages: stages(all.prefix(3)), attempts: 100)
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            let controllers = [world.controller(instance: 1), world.controller(instance: 2)]
            let gateways = [
                try world.gateway("a", instance: 1, hears: a, slots: 3),
                try world.gateway("b", instance: 2, hears: b, slots: 3),
            ]
            try await world.wait("all devices are done") {
                try await world.records().count(where: { $0.state == .done }) == 20
            }
            for gateway in gateways { try await gateway.stop() }
            for controller in controllers { await controller.kill() }
            #expect(await world.air.confirmations == Dictionary(uniqueKeysWithValues: all.map { ($0, 1) }))
            #expect(await world.air.acceptedChunks.values.allSatisfy { $0 == Air.chunks })
        }
    }

    @Test("all devices are confirmed once while gateways and controllers are killed and cut off", arguments: 1...5)
    func chaos(seed: Int) throws {
        var faults = FaultyStore<VirtualTime>.Faults()
        faults.lostAcknowledgement = 0.1
        faults.lostRequest = 0.05
        faults.lag = .milliseconds(500)
        let world = try World()
        let memory = try #require(world.memory as? MemoryStore)
        let connections = (0..<4).map { [faults] number in
            FaultyStore(memory, faults: faults, seed: UInt64(seed * 10 + number), clock: world.time)
        }
        let (all, a, b) = try devices(world)
        let rollout = try world.fleet.rollout(stages: stages(all.prefix(3)), attempts: 1000)
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            func start(_ number: Int, _ instance: UInt32) throws -> World.Running {
                let world = World(world, through: connections[number])
                return switch number {
                case 0: try world.gateway("a", instance: instance, hears: a, slots: 3)
                case 1: try world.gateway("b", instance: instance, hears: b, slots: 3)
                default: world.controller(instance: instance)
                }
            }
            var random = SplitMix64(seed: UInt64(seed))
            var running = try (0..<4).map { try start($0, UInt32($0)) }
            for instance in UInt32(10)..<50 {
                try await world.time.sleep(for: .seconds(Int.random(in: 5...30, using: &random)))
                let number = Int.random(in: 0..<4, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0:
                    await running[number].kill()
                    running[number] = try start(number, instance)
                case 1: await connections[number].setPartitioned(true)
                default: for connection in connections { await connection.setPartitioned(false) }
                }
            }
            for connection in connections { await connection.setPartitioned(false) }
            try await world.wait("all devices are done") {
                try await world.records().count(where: { $0.state == .done }) == 20
            }
            for number in 0..<2 { try await running[number].stop() }
            for number in 2..<4 { await running[number].kill() }
            #expect(await world.air.confirmations == Dictionary(uniqueKeysWithValues: all.map { ($0, 1) }))
            #expect(await world.air.acceptedChunks.values.allSatisfy { $0 == Air.chunks })
        }
    }

    @Test(
        "another gateway takes over 45 s after a gateway was killed, and continues at the device's offset",
        arguments: StoreKind.allCases)
    func takesOver(_ kind: StoreKind) async throws {
        let folder = try TemporaryFolder()
        let world = try World(local: await kind.open(in: folder))
        let (device, rollout) = (try world.device(1), try world.fleet.rollout())
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            let first = try world.gateway("a", instance: 1, hears: [device: -40])
            try await world.wait("the transfer") { await world.air.acceptedChunks[device] == 3 }
            let second = try world.gateway("b", instance: 2, hears: [device: -41])
            try await world.time.sleep(for: .seconds(1))
            await first.kill()
            let killed = world.time.now
            try await world.wait("the takeover") { try await world.record(device)?.holder?.gateway.text == "b" }
            let waited = killed.duration(to: world.time.now)
            #expect(waited >= .seconds(43) && waited <= .seconds(46), "\(waited)")
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            #expect(await world.air.acceptedChunks == [device: Air.chunks])
            #expect(await world.air.confirmations == [device: 1])
            #expect(try await world.record(device)?.attempt == 2)
            try await second.stop()
        }
    }

    @Test("two gateways with one name on two machines do not take the devices from each other, and report the name")
    func sameName() throws {
        let world = try World()
        let (devices, rollout) = (try (1...4).map(world.device), try world.fleet.rollout())
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            let hears = Dictionary(uniqueKeysWithValues: devices.map { ($0, -40) })
            let first = try world.gateway("a", instance: 1, hears: hears, slots: 2)
            let second = try world.gateway("a", instance: 101, hears: hears, slots: 2)
            for device in devices {
                try await world.wait("the device is done") { try await world.record(device)?.state == .done }
                #expect(try await world.record(device)?.attempt == 1)
            }
            #expect(await world.air.confirmations == Dictionary(uniqueKeysWithValues: devices.map { ($0, 1) }))
            try await world.wait("the report") {
                world.notes.all.contains { $0.contains("another process uses the name a of this gateway") }
            }
            try await first.stop()
            try await second.stop()
        }
    }

    @Test(
        "a bad firmware halts the rollout in its first stage, and no other device is contacted",
        arguments: StoreKind.allCases)
    func badFirmware(_ kind: StoreKind) async throws {
        let folder = try TemporaryFolder()
        let world = try World(imageIsBad: true, local: await kind.open(in: folder))
        let (all, a, b) = try devices(world)
        let rollout = try world.fleet.rollout(stages: stages(all.prefix(4)))
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            let gateways = [
                try world.gateway("a", instance: 1, hears: a, slots: 2),
                try world.gateway("b", instance: 2, hears: b, slots: 2),
            ]
            try await world.wait("the halt") { try await world.progress(of: rollout)?.state == .halted }
            try await world.time.sleep(for: .seconds(900))
            for gateway in gateways { try await gateway.stop() }
            await controller.kill()
            #expect(await Set(world.air.started).isSubset(of: all.prefix(4)))
            let failed = try await world.records().filter { $0.state == .givenUp }
            #expect(failed.count >= 2 && failed.allSatisfy { $0.reason == .rolledBack })
            #expect(try await world.progress(of: rollout)?.state == .halted)
        }
    }
}
