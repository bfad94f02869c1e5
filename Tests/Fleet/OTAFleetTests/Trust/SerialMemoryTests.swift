import OTAFleet
import OTASigning
import Testing

@Suite("Memory of accepted serials") struct SerialMemoryTests {
    /// A memory as an object, because `#expect` cannot call a mutating method of a value.
    private final class Memory {
        var value = SerialMemory()

        func accept(_ rollout: Verified<Rollout>) throws -> Bool { try value.accept(rollout) }
        func accept(_ release: Verified<FleetRelease>) throws -> Bool { try value.accept(release) }
        func accept(_ progress: Verified<RolloutProgress>) throws -> Bool { try value.accept(progress) }
    }

    @Test("a record with a lower serial is refused, and the same record again is accepted")
    func rollback() throws {
        let fixtures = try Fixtures()
        let first = try fixtures.verified(fixtures.rollout())
        let record = try fixtures.operators.change(first, to: .aborted, with: fixtures.operatorKey)
        let second = try fixtures.operators.rollout(record.encoded())
        let memory = Memory()
        #expect(try memory.accept(first))
        #expect(try !memory.accept(first))
        #expect(try memory.accept(second))
        #expect(throws: FleetError(.rollbackSeen, "")) { try memory.accept(first) }
        #expect(try !memory.accept(second))
    }

    @Test("another record with the same serial is refused")
    func sameSerial() throws {
        let fixtures = try Fixtures()
        let memory = Memory()
        #expect(try memory.accept(fixtures.verified(fixtures.rollout(attempts: 3))))
        #expect(throws: FleetError(.rollbackSeen, "")) {
            try memory.accept(fixtures.verified(fixtures.rollout(attempts: 4)))
        }
        #expect(try memory.accept(fixtures.verified(fixtures.rollout("other", attempts: 4))))
    }

    @Test("the memory survives a restart, and a damaged file is an error")
    func file() throws {
        let fixtures = try Fixtures()
        let rollout = try fixtures.verified(fixtures.rollout())
        var machine = StageMachine(rollout, progress: nil, memory: SerialMemory())
        let memory = Memory()
        let step = machine.step([], in: .none, at: .at(0))
        let progress = try fixtures.verified(#require(step), of: rollout)
        #expect(try memory.accept(rollout) && memory.accept(fixtures.release()) && memory.accept(progress))
        let text = memory.value.encoded()
        #expect(try SerialMemory(parsing: text) == memory.value)
        #expect(try SerialMemory(parsing: []) == SerialMemory() && memory.value.progressSerial(of: fixtures.name) == 1)
        for damaged in ["rollout t-140 3\n", "rollout t-140 x 00\n", "rollout t-140 3 00\n"] {
            #expect(throws: FleetError(.malformed, "")) { try SerialMemory(parsing: Array(damaged.utf8)) }
        }
    }
}
