internal import NATS
internal import OTAStore

/// Reads the values of a bucket without a consumer: one value with each request.
struct DirectReader {
    private let bucket: KeyValueBucket
    /// The revision of the last value that was read.
    private var last: UInt64 = 0

    init(_ bucket: KeyValueBucket) { self.bucket = bucket }

    /// Whether a bucket can be read without a consumer after this error of a consumer's creation.
    ///
    /// The server refuses consumers of a stream in another account: this user may not create them, or the user's own account does not have
    /// the stream. `DIRECT.GET` can still be permitted, because the accounts share it.
    static func replacesConsumer(after error: NATSError) -> Bool {
        [.permissionDenied, .notFound].contains(error.code)
    }

    /// Returns the next value; nil if no value is newer than the last one.
    private mutating func next() async throws(NATSError) -> KeyValueEntry? {
        guard last < .max, let entry = try await bucket.next(from: last + 1) else { return nil }
        last = entry.revision
        return entry
    }

    /// Returns the newest value of each key that has changed since the last call, in the order of their revisions. The first call returns
    /// the values of all keys.
    ///
    /// A bucket can keep earlier values of a key. They are not returned, because a reader would take an earlier version of a signed record
    /// for a replay.
    mutating func changed() async throws(NATSError) -> [KeyValueEntry] {
        var entries: [String: KeyValueEntry] = [:]
        while let entry = try await next() { entries[entry.key] = entry }
        return entries.values.sorted { $0.revision < $1.revision }
    }

    /// Starts again with the oldest value.
    mutating func restart() { last = 0 }
}

/// The changes of a bucket. They arrive through a consumer, or by repeated reading.
actor ChangeSource {
    /// The time between two searches for new values, without a consumer.
    private static let period = Duration.seconds(2)

    private let stored: KeyValueBucket
    private let bucket: Bucket
    private let hasConsumer: Bool
    private var watch: KeyValueWatch.Iterator?
    private var reader: DirectReader?
    private var hasRead = false

    init(_ stored: KeyValueBucket, _ bucket: Bucket, hasConsumer: Bool) {
        (self.stored, self.bucket, self.hasConsumer) = (stored, bucket, hasConsumer)
    }

    /// Returns the next records, or the error that ended the changes. Returns nil if the changes have ended or the task is cancelled.
    func next() async -> RecordChanges.Batch? {
        do throws(NATSError) {
            if hasConsumer, reader == nil {
                do throws(NATSError) { return try await watched() } catch {
                    guard DirectReader.replacesConsumer(after: error) else { throw error }
                }
            }
            return try await read()
        } catch {
            return error.code == .cancelled ? nil : .failure(StoreError(error))
        }
    }

    private func watched() async throws(NATSError) -> RecordChanges.Batch? {
        var changes: KeyValueWatch.Iterator
        if let watch { changes = watch } else { changes = try stored.watch().makeAsyncIterator() }
        defer { watch = changes }
        while let change = try await changes.next() {
            if case .entry(let entry) = change, let record = StoredRecord(entry, bucket) { return .success([record]) }
        }
        return nil
    }

    private func read() async throws(NATSError) -> RecordChanges.Batch? {
        var reader = reader ?? DirectReader(stored)
        defer { self.reader = reader }
        while true {
            do throws(NATSError) {
                let records = try await reader.changed().compactMap { StoredRecord($0, bucket) }
                hasRead = true
                if !records.isEmpty { return .success(records) }
            } catch {
                // A server that was restarted can have an older copy of the bucket, so all values are read again.
                reader.restart()
                switch error.code {
                case .notConnected, .disconnected, .timedOut, .tryAgain: break
                case .noResponders where hasRead: break
                default: throw error
                }
            }
            do { try await Task.sleep(for: Self.period, clock: .continuous) } catch {
                throw NATSError(.cancelled, "the task was cancelled")
            }
        }
    }
}
