import DescriptorIO
import Dispatch
import OTAFirmware
import OTALocalStore
import OTASimulator
import OTAStore

/// A store with a thread of its own, for a fleet in virtual time. Each call blocks until the store has answered, so the clock does not jump
/// ahead while the store works. The changes are polled with the virtual clock.
struct BlockingStore: FleetStore {
    let store: LocalStore
    let time: VirtualTime

    /// Runs each job at once, on the thread that enqueues it.
    private final class InlineExecutor: TaskExecutor {
        func enqueue(_ job: consuming ExecutorJob) {
            UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
        }
    }

    private static let executor = InlineExecutor()

    private func block<Value: Sendable>(
        _ call: @escaping @Sendable (LocalStore) async throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        let result = Guarded<Result<Value, StoreError>?>(nil)
        let done = DispatchSemaphore(value: 0)
        let store = store
        Task(executorPreference: Self.executor) {
            do throws(StoreError) {
                let value = try await call(store)
                _ = result.exchange(.success(value))
            } catch {
                _ = result.exchange(.failure(error))
            }
            done.signal()
        }
        done.wait()
        guard let result = result.with({ $0 }) else { throw StoreError(.unavailable, "no result") }
        return try result.get()
    }

    func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        try block { store throws(StoreError) in try await store.read(key) }
    }

    func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        try block { store throws(StoreError) in try await store.records(in: bucket) }
    }

    func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        try block { store throws(StoreError) in try await store.write(bytes, at: key, expecting: expected) }
    }

    func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        let poll = Poll(store: self, bucket: bucket)
        return try await body(RecordChanges(AsyncStream { await poll.next() }))
    }

    private actor Poll {
        private let store: BlockingStore
        private let bucket: Bucket
        private var last = Revision.absent

        init(store: BlockingStore, bucket: Bucket) {
            self.store = store
            self.bucket = bucket
        }

        func next() async -> RecordChanges.Batch? {
            while !Task.isCancelled {
                do throws(StoreError) {
                    let news = try await store.records(in: bucket).filter { $0.revision > last }
                    if let newest = news.last {
                        last = newest.revision
                        return .success(news)
                    }
                } catch {
                    return .failure(error)
                }
                try? await store.time.sleep(for: .milliseconds(500))
            }
            return nil
        }
    }

    func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        try block { store throws(StoreError) in try await store.putObject(bytes, digest: digest) }
    }

    func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        try block { store throws(StoreError) in try await store.object(digest) }
    }

    func append(_ event: FleetEvent) async throws(StoreError) {
        try block { store throws(StoreError) in try await store.append(event) }
    }

    func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        try block { store throws(StoreError) in try await store.events(after: number) }
    }
}
