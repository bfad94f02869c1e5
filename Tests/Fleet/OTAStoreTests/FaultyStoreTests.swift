import OTASimulator
import OTAStore
import StoreContract
import Testing

/// The fleet tests rely on these faults, so each fault must really occur.
@Suite("Store with faults") struct FaultyStoreTests {
    typealias Store = FaultyStore<VirtualTime>

    /// Runs `body` in virtual time with a store in memory and a client of it.
    private func run(
        _ faults: Store.Faults = Store.Faults(), seed: UInt64 = 1,
        _ body: @escaping @Sendable (MemoryStore, Store, VirtualTime) async throws -> Void
    ) throws {
        let time = VirtualTime()
        try time.run {
            let memory = MemoryStore { StoreTime(milliseconds: 0) }
            try await body(memory, Store(memory, faults: faults, seed: seed, clock: time), time)
        }
    }

    @Test("without faults, the client has the behaviour of all stores", arguments: StoreContract.cases)
    func contract(_ rule: StoreContract.Case) throws {
        try run { memory, store, _ in try await rule.run(StoreContract(store, memory)) }
    }

    @Test("with lag, the client has the behaviour of all stores", arguments: StoreContract.cases)
    func lag(_ rule: StoreContract.Case) throws {
        var faults = Store.Faults()
        faults.lag = .milliseconds(300)
        try run(faults) { memory, store, _ in try await rule.run(StoreContract(store, memory)) }
    }

    @Test("with lag, a call and a change take at most twice the lag")
    func delays() throws {
        var faults = Store.Faults()
        faults.lag = .milliseconds(300)
        try run(faults) { memory, store, time in
            let key = try RecordKey.of(.devices, "a")
            for number in 1...20 {
                let start = time.now
                _ = try await store.read(key)
                let delay = start.duration(to: time.now)
                #expect(delay > .zero && delay <= .milliseconds(600), "call \(number)")
            }
            try await store.withChanges(of: .devices) { changes in
                _ = try await memory.write([1], at: key, expecting: .absent)
                let start = time.now
                _ = try await changes.first { _ in true }
                #expect(start < time.now)
            }
        }
    }

    @Test("after a lost acknowledgement, the record is stored and the outcome is unknown")
    func lostAcknowledgement() throws {
        var faults = Store.Faults()
        faults.lostAcknowledgement = 1
        try run(faults) { _, store, _ in
            let key = try RecordKey.of(.devices, "a")
            #expect(try await store.write([1], at: key, expecting: .absent) == .unknown)
            #expect(try await store.read(key)?.bytes == [1])
        }
    }

    @Test("after a lost request, the record is not stored and the outcome is unknown")
    func lostRequest() throws {
        var faults = Store.Faults()
        faults.lostRequest = 1
        try run(faults) { _, store, _ in
            let key = try RecordKey.of(.devices, "a")
            #expect(try await store.write([1], at: key, expecting: .absent) == .unknown)
            #expect(try await store.read(key) == nil)
        }
    }

    @Test("a lost write is acknowledged, and another write gets the same revision")
    func lostWrite() throws {
        var faults = Store.Faults()
        faults.lostWrite = 1
        try run(faults) { memory, store, _ in
            let key = try RecordKey.of(.devices, "a")
            #expect(try await store.write([1], at: key, expecting: .absent) == .written(Revision(1)))
            #expect(try await store.read(key) == nil)
            #expect(try await memory.write([2], at: key, expecting: .absent) == .written(Revision(1)))
            #expect(try await store.write([3], at: key, expecting: .absent) == .conflict)
        }
    }

    @Test("without a connection, all calls throw store-unavailable, and a watch receives its changes later")
    func partition() throws {
        try run { memory, store, time in
            let key = try RecordKey.of(.devices, "a")
            try await store.withChanges(of: .devices) { changes in
                await store.setPartitioned(true)
                let unavailable = StoreError(.unavailable, "")
                await #expect(throws: unavailable) { try await store.read(key) }
                await #expect(throws: unavailable) { try await store.records(in: .devices) }
                await #expect(throws: unavailable) { try await store.write([1], at: key, expecting: .absent) }
                await #expect(throws: unavailable) { try await store.events(after: 0) }
                #expect(try await memory.write([2], at: key, expecting: .absent) == .written(Revision(1)))
                async let change = changes.first { _ in true }
                try await time.sleep(for: .seconds(10))
                await store.setPartitioned(false)
                #expect(try await change?.bytes == [2])
                #expect(time.now.offset >= .seconds(10))
            }
        }
    }

    @Test("a write whose answer is under way when the connection is cut is unknown")
    func cutDuringWrite() throws {
        var faults = Store.Faults()
        faults.lag = .seconds(100)
        try run(faults, seed: 3) { memory, store, time in
            let key = try RecordKey.of(.devices, "a")
            async let outcome = store.write([1], at: key, expecting: .absent)
            while try await memory.read(key) == nil { try await time.sleep(for: .milliseconds(10)) }
            await store.setPartitioned(true)
            #expect(try await outcome == .unknown)
        }
    }

    @Test("the same seed gives the same faults")
    func seeds() throws {
        func outcomes(seed: UInt64) throws -> [WriteOutcome] {
            var faults = Store.Faults()
            faults.lostAcknowledgement = 0.3
            faults.lostRequest = 0.3
            faults.lag = .seconds(1)
            let result = Outcomes()
            try run(faults, seed: seed) { _, store, _ in
                for number in 0..<50 {
                    let key = try RecordKey.of(.devices, "d\(number)")
                    await result.add(try await store.write([], at: key, expecting: .absent))
                }
            }
            return result.list
        }
        let first = try outcomes(seed: 7)
        #expect(first == (try outcomes(seed: 7)))
        #expect(first != (try outcomes(seed: 8)))
        #expect(first.contains(.unknown) && Set(first).count > 5)
    }
}

/// Collects outcomes in virtual time, where all code runs on one thread.
private final class Outcomes: @unchecked Sendable {
    private(set) var list: [WriteOutcome] = []

    func add(_ outcome: WriteOutcome) async { list.append(outcome) }
}
