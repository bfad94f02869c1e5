public import OTAFirmware
public import OTAStore
import OTAUpdate

/// A client of a store in memory whose connection loses messages. Each client of a test has its own connection, with its own faults.
///
/// The seed and the order of the calls determine all faults.
public actor FaultyStore<Time: Clock>: FleetStore where Time.Duration == Duration {
    /// How often each fault occurs, as a probability from 0 to 1.
    public struct Faults: Sendable {
        /// A write is stored, but its acknowledgement is lost. The outcome is `unknown`.
        public var lostAcknowledgement = 0.0
        /// A write does not reach the store. The outcome is `unknown`.
        public var lostRequest = 0.0
        /// A write is acknowledged, and then the store loses it, as a server that did not write it to the disk before a power cut. The next
        /// write has the same revision.
        public var lostWrite = 0.0
        /// The greatest delay of a call before it reaches the store, and of its answer.
        public var lag = Duration.zero

        public init() {}
    }

    private let store: MemoryStore
    private let clock: Time
    private var faults: Faults
    private var random: SplitMix64
    private var isPartitioned = false

    public init(_ store: MemoryStore, faults: Faults, seed: UInt64, clock: Time) {
        self.store = store
        self.faults = faults
        self.clock = clock
        random = SplitMix64(seed: seed)
    }

    /// Sets the faults of later calls.
    public func inject(_ faults: Faults) { self.faults = faults }

    /// Cuts or restores the connection. Without a connection, each call throws `unavailable`, and a write that has not been answered yet is
    /// `unknown`. A watch receives no changes until the connection is restored.
    public func setPartitioned(_ isPartitioned: Bool) { self.isPartitioned = isPartitioned }

    private func occurs(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &random) < probability
    }

    private func delay() async {
        guard faults.lag > .zero else { return }
        try? await clock.sleep(for: faults.lag * Double.random(in: 0..<1, using: &random))
    }

    /// Runs a call that changes nothing.
    private func call<Result: Sendable>(
        _ body: (MemoryStore) async throws(StoreError) -> Result
    ) async throws(StoreError) -> Result {
        await delay()
        try checkConnection()
        let result = try await body(store)
        await delay()
        try checkConnection()
        return result
    }

    private func checkConnection() throws(StoreError) {
        guard !isPartitioned else { throw StoreError(.unavailable, "the connection to the store is interrupted") }
    }

    // MARK: - FleetStore

    public func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        try await call { store throws(StoreError) in try await store.read(key) }
    }

    public func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        try await call { store throws(StoreError) in try await store.records(in: bucket) }
    }

    public func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        await delay()
        try checkConnection()
        if occurs(faults.lostRequest) { return .unknown }
        let isLost = occurs(faults.lostWrite)
        let before = await store.snapshot()
        let outcome = try await store.write(bytes, at: key, expecting: expected)
        if isLost, case .written(let revision) = outcome { await store.restore(before, ifLast: revision) }
        await delay()
        return isPartitioned || occurs(faults.lostAcknowledgement) ? .unknown : outcome
    }

    public nonisolated func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        try await store.withChanges(of: bucket) { changes in
            let source = Changes(changes.makeAsyncIterator(), of: self)
            return try await body(RecordChanges(AsyncStream { await source.next() }))
        }
    }

    public func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        try await call { store throws(StoreError) in try await store.putObject(bytes, digest: digest) }
    }

    public func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        try await call { store throws(StoreError) in try await store.object(digest) }
    }

    public func append(_ event: FleetEvent) async throws(StoreError) {
        try await call { store throws(StoreError) in try await store.append(event) }
    }

    public func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        try await call { store throws(StoreError) in try await store.events(after: number) }
    }

    /// Delays a change, and holds it while the connection is interrupted.
    fileprivate func transmit() async {
        await delay()
        while isPartitioned { guard (try? await clock.sleep(for: .milliseconds(100))) != nil else { return } }
    }
}

/// The changes of a watch, on their way to the client.
private actor Changes<Time: Clock> where Time.Duration == Duration {
    private var iterator: RecordChanges.Iterator
    private let connection: FaultyStore<Time>

    init(_ iterator: RecordChanges.Iterator, of connection: FaultyStore<Time>) {
        self.iterator = iterator
        self.connection = connection
    }

    func next() async -> RecordChanges.Batch? {
        var current = iterator
        defer { iterator = current }
        do {
            guard let record = try await current.next() else { return nil }
            await connection.transmit()
            return .success([record])
        } catch {
            return .failure(error)
        }
    }
}
