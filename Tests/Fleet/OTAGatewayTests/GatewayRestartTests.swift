import DescriptorIO
import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
import OTAStore
import OTAUpdate
import Testing

@Suite("Restarted gateway") struct GatewayRestartTests {
    /// The devices of a restarted gateway. It reports only the devices that the gateway has updated, without their product and version.
    private struct UpdatedDevices: GatewayDevices {
        let radio: Radio
        let answers = Guarded<[DeviceID: RecordedUse]>([:])

        func hear(
            record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
        ) async {
            for device in radio.hears.keys.sorted() {
                let answer = await record(device)
                answers.with { $0[device] = answer }
                if answer == .updatedHere { report(.heard(device, product: nil, version: nil, rssi: nil)) }
            }
        }

        func push(
            _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
            interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
        ) async -> PushEnd {
            await radio.push(
                bundle, to: device, onlyConfirms: onlyConfirms, refusesDowngrade: refusesDowngrade,
                interrupts: interrupts, report: report)
        }
    }

    /// Writes the record of a device whose last attempt, by the given gateway, has ended with the given change.
    private func write(
        _ device: DeviceID, by gateway: String, product: ProductName?, in world: World,
        _ change: (Holder) -> DeviceChange?
    ) async throws {
        let holder = Holder(gateway: try #require(GatewayName(gateway)), instance: GatewayInstance(1))
        var record = DeviceRecord(device: device)
        record.product = product
        record = try record.changed(
            .lease(rollout: #require(RolloutName("t-139")), created: world.fleet.created, holder: holder), at: nil)
        if let change = change(holder) { record = try record.changed(change, at: nil) }
        let key = RecordKey(.devices, try #require(RecordName(device.text)))
        #expect(try await world.memory.write(record.encoded(), at: key, expecting: .absent) != .conflict)
    }

    @Test("a gateway updates its devices again after the store has lost their records", arguments: [true, false])
    func lostRecords(isOlder: Bool) throws {
        let world = try World()
        let (device, rollout) = (try world.device(1), try world.fleet.rollout())
        let memory = try #require(world.memory as? MemoryStore)
        try world.run {
            try await world.fleet.publish(in: memory)
            try await world.fleet.write(rollout, to: memory)
            try await world.fleet.admit(rollout, in: memory)
            if isOlder {
                let key = RecordKey(.devices, try #require(RecordName(device.text)))
                _ = try await memory.write(DeviceRecord(device: device).encoded(), at: key, expecting: .absent)
            }
            let earlier = await memory.snapshot()
            let gateway = try world.gateway("a", hears: [device: -50])
            try await world.wait("the device is done") { try await world.record(device)?.state == .done }
            await memory.restore(earlier)
            try await world.wait("the device is done again") { try await world.record(device)?.state == .done }
            try await gateway.stop()
        }
    }

    // The store can also have lost the hold of a device.
    @Test("a gateway starts no update of a rollout that the store has lost, and a controller writes no progress for it")
    func lostRollout() throws {
        let world = try World()
        let (first, held) = (try world.device(1), try world.device(2))
        let rollout = try world.fleet.rollout()
        let memory = try #require(world.memory as? MemoryStore)
        try world.run {
            let empty = await memory.snapshot()
            try await world.fleet.publish(in: memory)
            try await world.fleet.write(rollout, to: memory)
            var record = DeviceRecord(device: held)
            record.product = world.fleet.product
            let key = RecordKey(.devices, try #require(RecordName(held.text)))
            _ = try await memory.write(record.changed(.hold, at: nil).encoded(), at: key, expecting: .absent)
            let controller = world.controller()
            let gateway = try world.gateway("a", hears: [first: -50, held: -50])
            try await world.wait("the first device is done") { try await world.record(first)?.state == .done }
            await memory.restore(empty)
            try await world.time.sleep(for: .seconds(300))
            #expect(await world.air.started.count == 1)
            #expect(try await world.progress(of: rollout) == nil)
            try await world.fleet.publish(in: memory)
            try await world.fleet.write(rollout, to: memory)
            try await world.wait("the second device is done") { try await world.record(held)?.state == .done }
            try await gateway.stop()
            await controller.kill()
        }
    }

    // A gateway reads all records again after a loss. Such an answer can be older than a write that is under way.
    @Test("a device has one result, also if the store reports losses and answers late", arguments: 1...8)
    func lateAnswers(seed: UInt64) throws {
        let random = Guarded(SplitMix64(seed: seed))
        let world = try World { time, memory in
            PatchedStore(
                store: memory,
                onAnswer: { _, _ in
                    let delay = random.with { Double.random(in: 0...6, using: &$0) }
                    try? await time.sleep(for: .seconds(delay))
                })
        }
        let devices = try (1...10).map { try world.device($0) }
        let rollout = try world.fleet.rollout()
        let memory = try #require(world.memory as? MemoryStore)
        try world.run {
            try await world.fleet.publish(in: memory)
            try await world.fleet.write(rollout, to: memory)
            try await world.fleet.admit(rollout, in: memory)
            let hears = Dictionary(uniqueKeysWithValues: devices.map { ($0, -50) })
            let gateway = try world.gateway("a", hears: hears, slots: 10)
            try await world.wait("all devices are done") {
                let records = try await world.records()
                // No record is lost, but each watch ends with the error. After it, no attempt starts for 15 s.
                if records.contains(where: { $0.state == .running }) { await memory.restore(await memory.snapshot()) }
                return records.count { $0.state == .done } == devices.count
            }
            try await world.time.sleep(for: .seconds(120))
            try await gateway.stop()
            let events = try await world.events()
            #expect(events.sorted() == devices.map { "\($0) 1 updated" }.sorted())
        }
    }

    @Test("a gateway hears a device that it has updated without reading its version, and pushes a newer rollout to it")
    func updated() throws {
        let world = try World()
        let devices = try (1...7).map { try world.device($0) }
        let hears = Dictionary(uniqueKeysWithValues: devices.map { ($0, -50) })
        let radio = UpdatedDevices(radio: Radio(air: world.air, hears: hears, product: world.fleet.product))
        let (product, version) = (world.fleet.product, SemanticVersion("1.3.0"))
        let rollout = try world.fleet.rollout()
        try world.run {
            try await write(devices[0], by: "a", product: product, in: world) { .finish(version: version, by: $0) }
            try await write(devices[1], by: "b", product: product, in: world) { .finish(version: version, by: $0) }
            try await write(devices[2], by: "a", product: product, in: world) { .giveUp(.rolledBack, by: $0) }
            try await write(devices[3], by: "a", product: product, in: world) { _ in nil }
            try await write(devices[4], by: "a", product: nil, in: world) { .finish(version: version, by: $0) }
            try await write(devices[5], by: "b", product: product, in: world) { _ in nil }
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            try await world.fleet.admit(rollout, in: world.memory)
            let gateway = try world.gateway("a", instance: 2, devices: radio)
            try await world.wait("the device is done") {
                let record = try await world.record(devices[0])
                return record?.rollout == rollout.value.name && record?.state == .done
            }
            try await world.time.sleep(for: .seconds(120))
            try await gateway.stop()
            let uses: [RecordedUse] = [.updatedHere, .free, .free, .free, .free, .inUse(revision: 6), .free]
            let expected = Dictionary(uniqueKeysWithValues: zip(devices, uses))
            #expect(radio.answers.with { $0 } == expected)
            #expect(await world.air.started == [devices[0]])
            let text = try String(
                decoding: #require(try await world.memory.records(in: .gateways).first).bytes, as: UTF8.self)
            #expect(text.contains(#""heard":1"#), "a device whose record was read is not heard yet")
        }
    }

    @Test("a gateway reads a device's record once at its start, also if the device must report its version")
    func reads() throws {
        let reads = Guarded<[DeviceID: Int]>([:])
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onRead: { key in
                    guard key.bucket == .devices, let device = DeviceID(key.name.description) else { return }
                    reads.with { $0[device, default: 0] += 1 }
                })
        }
        let (mine, other) = (try world.device(1), try world.device(2))
        let devices = AskedDevices(
            radio: Radio(air: world.air, hears: [mine: -50, other: -50], product: world.fleet.product))
        let product = world.fleet.product
        try world.run {
            try await write(mine, by: "a", product: product, in: world) { .finish(version: nil, by: $0) }
            try await write(other, by: "b", product: product, in: world) { .finish(version: nil, by: $0) }
            let gateway = try world.gateway("a", instance: 2, devices: devices)
            try await world.time.sleep(for: .seconds(60))
            try await gateway.stop()
        }
        #expect(reads.with { $0 } == [mine: 1, other: 1])
    }

    /// Devices that report their product and version after the gateway has read their records.
    private struct AskedDevices: GatewayDevices {
        let radio: Radio

        func hear(
            record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
        ) async {
            for device in radio.hears.keys.sorted() { _ = await record(device) }
            await radio.hear(record: record, report: report)
        }

        func push(
            _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
            interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
        ) async -> PushEnd {
            await radio.push(
                bundle, to: device, onlyConfirms: onlyConfirms, refusesDowngrade: refusesDowngrade,
                interrupts: interrupts, report: report)
        }
    }
}
