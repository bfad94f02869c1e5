import DescriptorIO
import OTAFirmware
import OTAFleet
import OTASimulator
import OTAStore
import StoreContract
import Testing

@Suite("Leadership of a controller") struct LeadershipTests {
    @Test(
        "two controllers never lead at the same time, although messages are lost and one connection is cut",
        arguments: 1...5)
    func oneLeader(seed: Int) throws {
        var faults = FaultyStore<VirtualTime>.Faults()
        faults.lostAcknowledgement = 0.2
        faults.lostRequest = 0.2
        faults.lag = .milliseconds(900)
        let first = try World { [faults] time, memory in
            FaultyStore(memory, faults: faults, seed: UInt64(seed), clock: time)
        }
        let memory = try #require(first.memory as? MemoryStore)
        let second = World(
            first, through: FaultyStore(memory, faults: faults, seed: UInt64(seed + 100), clock: first.time))
        let cut = try #require(first.store as? FaultyStore<VirtualTime>)
        let rollout = try first.fleet.rollout()
        try first.run {
            try await first.fleet.write(rollout, to: first.memory)
            let controllers = [first.controller(instance: 1), second.controller(instance: 2)]
            var leaders: Set<String> = []
            for minute in 0..<20 {
                await cut.setPartitioned(minute % 3 == 2)
                for _ in 0..<60 {
                    try await first.time.sleep(for: .seconds(1))
                    let leading = first.leading
                    #expect(leading.count <= 1)
                    leaders.formUnion(leading)
                }
            }
            for controller in controllers { await controller.kill() }
            #expect(leaders.count == 2, "each controller has led once")
        }
    }

    @Test("a restarted controller leads at once, and another one waits 45 s", arguments: [true, false])
    func restart(isSame: Bool) throws {
        let world = try World()
        try world.run {
            try await world.fleet.write(try world.fleet.rollout(), to: world.memory)
            let first = world.controller(instance: 1)
            try await world.wait("the first controller leads") { world.leading == ["controller 1"] }
            await first.kill()
            let second = world.controller(instance: 2, earlierInstances: isSame ? [1] : [])
            let start = world.time.now
            try await world.wait("the second controller leads") {
                world.notes.all.contains("controller 2: leads(true)")
            }
            let time = start.duration(to: world.time.now)
            #expect(isSame ? time <= .seconds(2) : time >= .seconds(44))
            await second.kill()
        }
    }

    @Test(
        "a controller leads on after its store has lost its newest records, and does not write without a pause",
        arguments: [true, false])
    func lostRecords(isEmpty: Bool) throws {
        let writes = Guarded(0)
        let world = try World { _, memory in
            PatchedStore(
                store: memory,
                onWrite: { key throws(StoreError) in
                    let count = writes.with {
                        $0 += 1
                        return $0
                    }
                    // Virtual time does not pass while a controller writes without a pause.
                    if count > 500 { throw StoreError(.unavailable, "too many writes") }
                })
        }
        let memory = try #require(world.memory as? MemoryStore)
        try world.run {
            let empty = await memory.snapshot()
            let controllers = [world.controller(instance: 1), world.controller(instance: 2)]
            try await world.wait("a leader") { !world.leading.isEmpty }
            let first = world.leading
            let early = await memory.snapshot()
            try await world.time.sleep(for: .seconds(60))
            await memory.restore(isEmpty ? empty : early)
            try await world.time.sleep(for: .seconds(15))
            #expect(isEmpty || world.leading == first, "the leader writes its next beat")
            for _ in 0..<120 {
                try await world.time.sleep(for: .seconds(1))
                #expect(world.leading.count <= 1)
            }
            #expect(world.leading.count == 1)
            for controller in controllers { await controller.kill() }
            #expect(writes.with { $0 } < 40)
        }
    }

    @Test("a damaged record of a leader is replaced after 45 s, and the record of a newer release is not touched")
    func foreignRecords() throws {
        for (text, isReplaced) in [("damaged", true), (#"{"schema":2}"#, false)] {
            let world = try World()
            try world.run {
                let key = RecordKey(.progress, try #require(RecordName("_leader")))
                _ = try await world.memory.write(Array(text.utf8), at: key, expecting: .absent)
                let controller = world.controller()
                try await world.time.sleep(for: .seconds(40))
                #expect(world.leading.isEmpty)
                try await world.time.sleep(for: .seconds(20))
                #expect(world.leading.isEmpty != isReplaced)
                await controller.kill()
                #expect(try await (world.memory.read(key)?.bytes == Array(text.utf8)) != isReplaced)
            }
        }
    }
}
