import OTAFirmware
import OTAFleet
import OTASigning
import OTASimulator
import OTAStore
import Testing

/// Two enrolled Bluetooth devices, and strangers in radio range of the only gateway.
@Suite("A fleet with strangers in radio range") struct EnrolmentTests {
    private func id(_ text: String) throws -> DeviceID { try #require(DeviceID(text)) }

    /// The devices of the fleet, and their rollout: the first stage needs one updated device, and one failed device halts.
    private func plan(_ world: World) throws -> (own: [DeviceID], list: EnrolledDevices, rollout: Verified<Rollout>) {
        let own = try [id("ble-AABBCCDDEE01"), id("ble-AABBCCDDEE02")]
        let list = try #require(EnrolledDevices(own))
        let stages = [try #require(Stage(.percent(100))), try #require(Stage(.percent(100)))]
        return (own, list, try world.fleet.rollout(stages: stages, haltMinimum: 1, enrolled: list))
    }

    @Test("strangers with wrong answers get the last stage, do not halt the rollout, and have events that name them")
    func wrongAnswers() throws {
        let world = try World()
        let (own, list, rollout) = try plan(world)
        let strangers = try (1...10).map { try id("ble-C000000000\($0 + 10)") }
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.memory.putObject(list.encoded, digest: #require(list.digest))
            try await world.fleet.write(rollout, to: world.memory)
            for stranger in strangers { await world.air.answerWrongly(stranger) }
            let controller = world.controller()
            // The strangers have the strongest signals.
            var hears = Dictionary(uniqueKeysWithValues: strangers.map { ($0, -30) })
            let early = try world.gateway("a", hears: hears)
            try await world.wait("the start of the rollout") { try await world.progress(of: rollout) != nil }
            try await world.time.sleep(for: .seconds(300))
            #expect(await world.air.started.isEmpty, "no stranger is in the first stage")
            try await early.stop()
            for device in own { hears[device] = -80 }
            let gateway = try world.gateway("a", instance: 2, hears: hears)
            try await world.wait("the results of the strangers") {
                try await world.records().count { $0.state == .givenUp } == strangers.count
            }
            try await world.time.sleep(for: .seconds(60))
            let progress = try #require(try await world.progress(of: rollout))
            #expect(progress.state == .running && progress.stage == 1)
            #expect((progress.counts.done, progress.counts.ended) == (2, 2))
            try await gateway.stop()
            await controller.kill()
            #expect(await Set(world.air.started.prefix(2)) == Set(own))
            let events = try await world.memory.events(after: 0).map(\.event)
            func texts(_ kind: String) -> [Bool] {
                events.filter { $0.kind.description == kind }
                    .map { String(decoding: $0.bytes, as: UTF8.self).contains("the device is not enrolled") }
            }
            #expect(texts("protocol-violation") == Array(repeating: true, count: 10))
            #expect(texts("updated") == [false, false])
        }
    }

    @Test("strangers that answer nothing leave one place of the gateway for enrolled devices")
    func lastPlace() throws {
        let world = try World()
        let (own, list, _) = try plan(world)
        let rollout = try world.fleet.rollout(enrolled: list)
        let strangers = try (1...10).map { try id("ble-C000000000\($0 + 10)") }
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.memory.putObject(list.encoded, digest: #require(list.digest))
            try await world.fleet.write(rollout, to: world.memory)
            for stranger in strangers { await world.air.silence(stranger) }
            let controller = world.controller()
            var hears = Dictionary(uniqueKeysWithValues: strangers.map { ($0, -30) })
            for device in own { hears[device] = -80 }
            let gateway = try world.gateway("a", hears: hears, slots: 2)
            try await world.wait("both enrolled devices are done") {
                try await world.records().count { $0.state == .done } == 2
            }
            let started = await world.air.started
            #expect(started.filter { !own.contains($0) }.count <= 3, "\(started)")
            try await gateway.stop()
            await controller.kill()
        }
    }

    @Test(
        "without the list of enrolled devices, the controller counts nothing, and no first stage starts until it is read"
    )
    func missingList() throws {
        let world = try World()
        let (own, list, rollout) = try plan(world)
        try world.run {
            try await world.fleet.publish(in: world.memory)
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            let gateway = try world.gateway("a", hears: [own[0]: -50, own[1]: -60])
            try await world.time.sleep(for: .seconds(100))
            #expect(try await world.progress(of: rollout) == nil)
            let refusals = world.notes.all.filter { $0.contains("does not have the list of the enrolled devices") }
            #expect(Set(refusals.map { $0.prefix(12) }).count == 2, "\(refusals)")
            try await world.memory.putObject(list.encoded, digest: #require(list.digest))
            let stored = world.time.now
            try await world.wait("both devices are done") {
                try await world.records().count { $0.state == .done } == 2
            }
            #expect(stored.duration(to: world.time.now) < .seconds(90))
            try await gateway.stop()
            await controller.kill()
        }
    }

    @Test("a store that cannot read an object for a while delays the rollout, and each reader tries again every 30 s")
    func unavailableList() throws {
        let isAway = Flag()
        isAway.set()
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onObject: { () throws(StoreError) in if isAway.isSet { throw StoreError(.unavailable, "no answer") } })
        }
        let (_, list, rollout) = try plan(world)
        try world.run {
            try await world.memory.putObject(list.encoded, digest: #require(list.digest))
            try await world.fleet.write(rollout, to: world.memory)
            let controller = world.controller()
            try await world.time.sleep(for: .seconds(100))
            #expect(try await world.progress(of: rollout) == nil)
            #expect(world.notes.all.count { $0.contains("no answer") } == 4, "\(world.notes.all)")
            isAway.clear()
            try await world.time.sleep(for: .seconds(25))
            #expect(try await world.progress(of: rollout)?.counts == .init())
            await controller.kill()
        }
    }
}
