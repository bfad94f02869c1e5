public import OTAFirmware

/// A store in the memory of this process, for tests and simulated fleets. It uses no thread and no clock of its own, so it can run in
/// virtual time.
public actor MemoryStore: CleanableStore {
    /// The complete contents of a store at one time.
    package struct Contents: Sendable {
        fileprivate struct Row {
            var record: StoredRecord
            var written: StoreTime
        }

        fileprivate var revision = Revision.absent
        fileprivate var rows: [RecordKey: Row] = [:]
        fileprivate var objects: [SHA256Digest: [UInt8]] = [:]
        fileprivate var events: [(stored: StoredEvent, appended: StoreTime)] = []
        fileprivate var identifiers: Set<String> = []
        fileprivate var lastEvent: UInt64 = 0
    }

    private typealias Feed = AsyncStream<RecordChanges.Batch>.Continuation

    private let now: @Sendable () -> StoreTime
    private var contents = Contents()
    private var watchers: [(bucket: Bucket, feed: Feed)] = []

    /// - Parameter now: returns the time that determines the age of records and events.
    public init(now: @escaping @Sendable () -> StoreTime) { self.now = now }

    public func read(_ key: RecordKey) throws(StoreError) -> StoredRecord? { current(key) }

    public func records(in bucket: Bucket) throws(StoreError) -> [StoredRecord] {
        contents.rows.keys.filter { $0.bucket == bucket }.compactMap(current).sorted { $0.revision < $1.revision }
    }

    public func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) throws(StoreError) -> WriteOutcome {
        try StoreLimits.check(bytes, at: key)
        guard (current(key)?.revision ?? .absent) == expected else { return .conflict }
        contents.revision = Revision(contents.revision.number + 1)
        let record = StoredRecord(key: key, revision: contents.revision, bytes: bytes)
        contents.rows[key] = Contents.Row(record: record, written: now())
        watchers.removeAll { watcher in
            guard watcher.bucket == key.bucket, case .terminated = watcher.feed.yield(.success([record])) else {
                return false
            }
            return true
        }
        return .written(record.revision)
    }

    public func remove(_ key: RecordKey, expecting expected: Revision) throws(StoreError) -> Bool {
        guard let record = current(key), record.revision == expected else { return false }
        contents.rows[key] = nil
        return true
    }

    /// This store has no such entries.
    public func removeForeign(in bucket: Bucket) throws(StoreError) -> Int { 0 }

    private func current(_ key: RecordKey) -> StoredRecord? {
        guard let row = contents.rows[key] else { return nil }
        if let age = key.bucket.maximumAge, row.written < now().before(age) { return nil }
        return row.record
    }

    // MARK: - Changes

    public nonisolated func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        let (batches, feed) = AsyncStream.makeStream(of: RecordChanges.Batch.self)
        defer { feed.finish() }
        await watch(bucket, feed)
        return try await body(RecordChanges(batches))
    }

    private func watch(_ bucket: Bucket, _ feed: Feed) {
        let first = contents.rows.keys.filter { $0.bucket == bucket }.compactMap(current)
        feed.yield(.success(first.sorted { $0.revision < $1.revision }))
        watchers.append((bucket, feed))
    }

    // MARK: - Objects and events

    public func putObject(_ bytes: [UInt8], digest: SHA256Digest) throws(StoreError) {
        try StoreLimits.check(bytes, digest: digest)
        contents.objects[digest] = bytes
    }

    public func object(_ digest: SHA256Digest) throws(StoreError) -> [UInt8]? {
        guard let bytes = contents.objects[digest] else { return nil }
        try StoreLimits.check(bytes, digest: digest)
        return bytes
    }

    public func append(_ event: FleetEvent) throws(StoreError) {
        try StoreLimits.check(event)
        guard contents.identifiers.insert(event.identifier).inserted else { return }
        contents.lastEvent += 1
        contents.events.append((StoredEvent(number: contents.lastEvent, event: event), now()))
    }

    public func events(after number: UInt64) throws(StoreError) -> [StoredEvent] {
        let oldest = now().before(StoreLimits.eventAge)
        return Array(
            contents.events.lazy.filter { $0.stored.number > number && $0.appended >= oldest }.map(\.stored)
                .prefix(StoreLimits.eventsPerRead))
    }

    // MARK: - Lost writes

    /// Returns a copy of the contents.
    package func snapshot() -> Contents { contents }

    /// Replaces the contents with an earlier copy. This simulates a server that lost its last writes in a power cut. Later writes use the
    /// revisions of the lost writes again. Each watch ends with `recordsLost`.
    ///
    /// - Parameter last: the expected revision of the last write. If the last write has another revision, this method restores nothing. If
    ///   this parameter is nil, this method always restores the copy.
    package func restore(_ earlier: Contents, ifLast last: Revision? = nil) {
        guard last == nil || last == contents.revision else { return }
        contents = earlier
        for (_, feed) in watchers {
            feed.yield(.failure(StoreError(.recordsLost, "the store has lost its newest records")))
            feed.finish()
        }
        watchers = []
    }
}
