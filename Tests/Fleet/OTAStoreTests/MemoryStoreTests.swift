import OTASimulator
import OTAStore
import StoreContract
import Testing

@Suite("Store in memory") struct MemoryStoreTests {
    @Test(
        "the store in memory has the behaviour of all stores", arguments: StoreContract.cases + StoreContract.ageCases)
    func contract(_ rule: StoreContract.Case) async throws {
        let clock = ManualClock()
        let store = MemoryStore { clock.now }
        try await rule.run(StoreContract(store, store, clock: clock))
    }

    @Test("the store in memory uses no thread, so it runs in virtual time", arguments: StoreContract.cases)
    func virtualTime(_ rule: StoreContract.Case) throws {
        try VirtualTime().run {
            let clock = ManualClock()
            let store = MemoryStore { clock.now }
            try await rule.run(StoreContract(store, store, clock: clock))
        }
    }

    @Test("one read returns at most 1000 events, and the next read continues")
    func manyEvents() async throws {
        let store = MemoryStore { StoreTime(milliseconds: 0) }
        for attempt in 1...1001 {
            try await store.append(StoreContract.event("sim-a", attempt: UInt32(attempt), "confirmed"))
        }
        let first = try await store.events(after: 0)
        #expect(first.map(\.event.attempt) == Array(1...1000))
        #expect(try await store.events(after: first[999].number).map(\.event.attempt) == [1001])
    }

    @Test("a store that lost its last writes uses their revisions again")
    func restore() async throws {
        let store = MemoryStore { StoreTime(milliseconds: 0) }
        let key = try RecordKey.of(.devices, "a")
        #expect(try await store.write([1], at: key, expecting: .absent) == .written(Revision(1)))
        let earlier = await store.snapshot()
        #expect(try await store.write([2], at: key, expecting: Revision(1)) == .written(Revision(2)))
        await store.restore(earlier, ifLast: Revision(1))
        #expect(try await store.read(key)?.bytes == [2])
        await store.restore(earlier)
        #expect(try await store.read(key)?.bytes == [1])
        #expect(try await store.write([3], at: key, expecting: Revision(1)) == .written(Revision(2)))
    }
}
