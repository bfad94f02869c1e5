import OTAFirmware
import OTAStore

/// A store that refuses some calls, or answers them late.
struct PatchedStore: FleetStore {
    enum Access { case read, write }

    let store: any FleetStore
    var onRead: @Sendable (RecordKey) -> Void = { _ in }
    var onRecords: @Sendable (Bucket) throws(StoreError) -> Void = { _ throws(StoreError) in }
    var onWrite: @Sendable (RecordKey) async throws(StoreError) -> Void = { _ throws(StoreError) in }
    /// Called between the read or write of a record and its answer.
    var onAnswer: @Sendable (Access, RecordKey) async throws(StoreError) -> Void = { _, _ throws(StoreError) in }
    var onObject: @Sendable () throws(StoreError) -> Void = { () throws(StoreError) in }
    var onAppend: @Sendable (FleetEvent) throws(StoreError) -> Void = { _ throws(StoreError) in }

    func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        onRead(key)
        let stored = try await store.read(key)
        try await onAnswer(.read, key)
        return stored
    }

    func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        try onRecords(bucket)
        return try await store.records(in: bucket)
    }

    func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        try await onWrite(key)
        let outcome = try await store.write(bytes, at: key, expecting: expected)
        try await onAnswer(.write, key)
        return outcome
    }

    func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        try await store.withChanges(of: bucket, body)
    }

    func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        try await store.putObject(bytes, digest: digest)
    }

    func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        try onObject()
        return try await store.object(digest)
    }

    func append(_ event: FleetEvent) async throws(StoreError) {
        try onAppend(event)
        try await store.append(event)
    }

    func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        try await store.events(after: number)
    }
}
