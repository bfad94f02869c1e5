public import OTAFirmware

/// The shared memory of a fleet: small records with compare-and-set, objects, and a history of events.
///
/// Gateways, the controller and the commands of an operator share one store. They do not compare clocks. A write succeeds only if the
/// record still has the revision that the writer has read. In a bucket, a later write has a greater revision than an earlier write.
/// Exception: a store that has lost its newest records (``withChanges(of:_:)``). Therefore the answers of ``read(_:)`` and ``records(in:)``
/// count even if they have lower revisions than an earlier answer. Revisions of different buckets cannot be compared.
///
/// The test target `StoreContract` contains the tests that each store must pass.
public protocol FleetStore: Sendable {
    /// Returns a record; nil if it does not exist or has expired (``Bucket/maximumAge``).
    ///
    /// - Throws: `unavailable`, `corrupt`.
    func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord?

    /// Returns all records of a bucket in the order of their revisions. The list contains no expired records (``Bucket/maximumAge``).
    ///
    /// - Throws: `unavailable`, `corrupt`.
    func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord]

    /// Writes a record if it still has the expected revision.
    ///
    /// - Parameters:
    ///   - bytes: the new contents, at most ``StoreLimits/recordBytes``.
    ///   - expected: the revision that the caller has read; ``Revision/absent`` if the record must not exist.
    /// - Returns: `unknown` if the store cannot find out whether it has written the record. The caller must read the record.
    /// - Throws: `recordTooLarge`, `full`, `unavailable`, `corrupt`. If this method throws an error, the store has not written the record.
    func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome

    /// Passes all records of the bucket to `body`, and then each changed record, until `body` returns.
    ///
    /// The changes of a record arrive in the order of their revisions. A record can arrive twice, and intermediate revisions can be
    /// missing. The newest revision of each record always arrives. The sequence does not report that a record has expired. It also does
    /// not show where the existing records end and the changed records begin. A caller that needs a complete state therefore first calls
    /// ``records(in:)``.
    ///
    /// A store can lose its newest records, for example if an older copy of its files is restored. It then uses the revisions of the lost
    /// writes again. The sequence throws `unavailable` when the store finds this, so that the caller reads the complete list again.
    ///
    /// - Parameter body: receives the records as a sequence that ends if the task is cancelled. The sequence throws `unavailable` or
    ///   `corrupt`, and ends after an error.
    /// - Throws: the errors of `body`.
    func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result

    /// Stores an object under its digest. If the object already exists, the call succeeds, and replaces damaged bytes.
    ///
    /// If the call throws `unavailable`, it is unknown whether the object was stored. The caller can safely repeat the call.
    ///
    /// - Throws: `objectDamaged` if `digest` is not the SHA-256 digest of `bytes`; `recordTooLarge` above ``StoreLimits/objectBytes``;
    ///   `full`, `unavailable`, `corrupt`.
    func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError)

    /// Returns the object with this digest; nil if it does not exist. Each call compares the bytes with the digest.
    ///
    /// - Throws: `objectDamaged` if the stored bytes have another digest; `unavailable`, `corrupt`.
    func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]?

    /// Appends an event to the history. If an event with this identifier is already in the history, the call has no effect.
    ///
    /// If the call throws `unavailable`, it is unknown whether the event was stored. The caller can safely repeat the call.
    ///
    /// - Throws: `recordTooLarge` above ``StoreLimits/eventBytes``; `full`, `unavailable`, `corrupt`.
    func append(_ event: FleetEvent) async throws(StoreError)

    /// Returns the next events after an event number, at most ``StoreLimits/eventsPerRead``, in the order of their numbers. The result is
    /// empty if the history contains no later event.
    ///
    /// - Parameter number: the number of the last event that the caller has read; 0 for the start of the history. The history does not
    ///   contain events that are older than ``StoreLimits/eventAge``.
    /// - Throws: `unavailable`, `corrupt`.
    func events(after number: UInt64) async throws(StoreError) -> [StoredEvent]
}

/// The result of a write.
public enum WriteOutcome: Hashable, Sendable {
    /// The store has written the record, which now has this revision.
    case written(Revision)
    /// The record does not have the expected revision. The store has written nothing.
    case conflict
    /// The store may have written the record. The caller must read the record to find out.
    case unknown
}

/// The records of a bucket, followed by their changes (``FleetStore/withChanges(of:_:)``). Only one task may iterate over the sequence.
public struct RecordChanges: AsyncSequence, Sendable {
    public typealias Element = StoredRecord
    public typealias Failure = StoreError

    /// One or more records, or the error that ends the sequence.
    package typealias Batch = Swift.Result<[StoredRecord], StoreError>

    private let batches: AsyncStream<Batch>

    package init(_ batches: AsyncStream<Batch>) { self.batches = batches }

    public func makeAsyncIterator() -> Iterator { Iterator(batches: batches.makeAsyncIterator()) }

    public struct Iterator: AsyncIteratorProtocol {
        fileprivate var batches: AsyncStream<Batch>.Iterator
        private var pending: ArraySlice<StoredRecord> = []

        fileprivate init(batches: AsyncStream<Batch>.Iterator) { self.batches = batches }

        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(StoreError) -> StoredRecord? {
            while true {
                if let record = pending.popFirst() { return record }
                guard let batch = await batches.next(isolation: actor) else { return nil }
                pending = try batch.get()[...]
            }
        }
    }
}

/// A store whose records an operator can remove. Gateways and controllers never remove a record.
public protocol CleanableStore: FleetStore {
    /// Removes a record if it still has the expected revision. Running watches do not report it.
    ///
    /// - Returns: false if another process has changed the record, or if it does not exist.
    /// - Throws: `accessRefused`, `unavailable`, `corrupt`.
    func remove(_ key: RecordKey, expecting expected: Revision) async throws(StoreError) -> Bool

    /// Removes all entries of a bucket whose names are not names of records. No list contains them, but they use the space of the store.
    ///
    /// - Returns: the number of removed entries.
    /// - Throws: `accessRefused`, `unavailable`, `corrupt`.
    func removeForeign(in bucket: Bucket) async throws(StoreError) -> Int
}
