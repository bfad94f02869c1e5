internal import NATS
internal import OTAStore

/// Reads the values of a bucket without a consumer: one value with each request.
struct DirectReader {
    /// The maximum number of requests at the same time. With one at a time, a list of 10,000 devices would last 400 s over a connection with a
    /// round trip of 40 ms.
    private static let atOnce = 32
    /// The maximum number of ranges of revisions that are read separately, and the minimum length of a range.
    private static let (mostRanges, shortestRange): (UInt64, UInt64) = (512, 4)
    /// The maximum number of rounds that read all values. Under uninterrupted writes, each round finds new values.
    private static let mostRounds = 16

    private let bucket: KeyValueBucket
    /// The last value that was read.
    private var last: KeyValueEntry?

    init(_ bucket: KeyValueBucket) { self.bucket = bucket }

    /// Whether a bucket can be read without a consumer after this error of a consumer's creation.
    ///
    /// The server refuses consumers of a stream in another account: this user may not create them, or the user's own account does not have
    /// the stream. It also refuses one consumer more than ``StoreLimits/consumers``. `DIRECT.GET` can still be permitted, because the accounts share it.
    static func replacesConsumer(after error: NATSError) -> Bool {
        // 10026: the bucket has its maximum number of consumers.
        [.permissionDenied, .notFound].contains(error.code) || error.serverCode == 10026
    }

    /// Returns the newest value of each key that has changed since the last call, in the order of their revisions. The first call returns
    /// the values of all keys.
    ///
    /// A bucket can keep earlier values of a key. They are not returned, because a reader would take an earlier version of a signed record
    /// for a replay.
    ///
    /// - Returns: `isComplete` is true if the values are those of all keys. This is also the case if the server does not have the last value
    ///   of the last call any more, for example because an older copy of its files was restored.
    mutating func changed() async throws(NATSError) -> (entries: [KeyValueEntry], isComplete: Bool) {
        if let last {
            let entry = try await bucket.next(from: last.revision)
            // A newer value of the same key can have replaced the last value.
            let isReplaced = (entry?.revision ?? 0) > last.revision
            if entry != last, !isReplaced { restart() }
        }
        let isComplete = last == nil
        var (entries, goal) = ([String: KeyValueEntry](), UInt64(0))
        for _ in 0..<(isComplete ? Self.mostRounds : 1) {
            // A value that was replaced before it was read has a new revision, which the next round reads. So the values of all keys are
            // known if there is no newer value. A key is missing only if its value was replaced in each of the rounds. A server of a
            // cluster can be late, so the newest value of an earlier round can be newer.
            goal = max(goal, try await bucket.newest()?.revision ?? 0)
            let start = (last?.revision ?? 0) + 1
            guard start <= goal else { break }
            for entry in try await values(in: start...goal) { entries[entry.key] = entry }
        }
        return (entries.values.sorted { $0.revision < $1.revision }, isComplete)
    }

    /// Returns the values in a range of revisions, and the first value after it if the last values of the range were replaced.
    ///
    /// Values that are replaced in the meantime can be missing. A server of a cluster can be late, and not have the newest values yet. The
    /// values after its newest one are then not returned, so that the next call begins with them.
    private mutating func values(in range: ClosedRange<UInt64>) async throws(NATSError) -> [KeyValueEntry] {
        let (start, newest) = (range.lowerBound, range.upperBound)
        let length = max(Self.shortestRange, (newest - start) / Self.mostRanges + 1)
        let bucket = bucket
        let results = await withTaskGroup(of: Result<RangeRead, NATSError>.self) { group in
            var results: [Result<RangeRead, NATSError>] = []
            for (index, first) in stride(from: start, through: newest, by: Int(length)).enumerated() {
                if index >= Self.atOnce, let result = await group.next() { results.append(result) }
                let end = min(newest, first + length - 1)
                group.addTask { await Self.entries(of: bucket, in: first...end, withNext: end == newest) }
            }
            for await result in group { results.append(result) }
            return results
        }
        var (entries, end) = ([KeyValueEntry](), UInt64.max)
        for result in results {
            let read = try result.get()
            entries += read.entries
            end = min(end, read.hole ?? .max)
        }
        entries = entries.filter { $0.revision < end }.sorted { $0.revision < $1.revision }
        last = entries.last ?? last
        return entries
    }

    private struct RangeRead {
        var entries: [KeyValueEntry] = []
        /// The first revision of the range that was not read, because the server that answered has no value with this or a higher revision.
        /// Nil if the whole range was read.
        var hole: UInt64?
    }

    /// Reads a range of revisions.
    ///
    /// - Parameter withNext: whether to also read one value after the range, if the last values of the range were replaced. Otherwise a
    ///   round could miss a value that is replaced again and again.
    private static func entries(
        of bucket: KeyValueBucket, in revisions: ClosedRange<UInt64>, withNext: Bool
    ) async -> Result<RangeRead, NATSError> {
        var (read, next) = (RangeRead(), revisions.lowerBound)
        do throws(NATSError) {
            while revisions.contains(next) {
                guard let entry = try await bucket.next(from: next) else {
                    read.hole = next
                    break
                }
                guard withNext || revisions.contains(entry.revision) else { break }
                read.entries.append(entry)
                next = entry.revision + 1
            }
            return .success(read)
        } catch {
            return .failure(error)
        }
    }

    /// Starts again with the oldest value.
    mutating func restart() { last = nil }
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
    private var ledger: RevisionLedger
    /// The number of the last searches without a consumer that have found a loss.
    private var losses = 0

    init(_ stored: KeyValueBucket, _ bucket: Bucket, hasConsumer: Bool) {
        (self.stored, self.bucket, self.hasConsumer) = (stored, bucket, hasConsumer)
        ledger = RevisionLedger(bucket)
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
            switch change {
            case .started: ledger.begin()
            case .entry(let entry):
                ledger.add(entry)
                guard ledger.loss == nil, let record = StoredRecord(entry, bucket) else { break }
                return .success([record])
            case .snapshotEnded: try await confirm(ledger.end())
            }
            if let error = ledger.loss { return .failure(error) }
        }
        return nil
    }

    /// Reads some of the keys that the last snapshot did not contain, or contained with an older revision. A key can be missing because its
    /// value was replaced several times while the snapshot was read. In a cluster, a server that is late can answer a request, so a loss
    /// counts only if three requests find it.
    private func confirm(_ suspects: [(key: String, revision: UInt64)]) async throws(NATSError) {
        // After a loss, the first keys show it. The watch must not wait for a request for each device of a fleet.
        for (key, revision) in suspects.prefix(16) where ledger.loss == nil {
            for attempt in 1...3 {
                let entry: KeyValueEntry?
                // Without an answer, the next snapshot shows whether the key exists.
                do throws(NATSError) { entry = try await stored.get(key) } catch { return }
                // The watch also delivers this value, possibly after an earlier one, so the ledger does not record it here.
                if let entry, entry.revision >= revision { break }
                if attempt == 3 { ledger.lose(key, revision, entry?.revision) }
                do { try await Task.sleep(for: .milliseconds(500), clock: .continuous) } catch {
                    throw NATSError(.cancelled, "the task was cancelled")
                }
            }
        }
    }

    private func read() async throws(NATSError) -> RecordChanges.Batch? {
        var reader = reader ?? DirectReader(stored)
        defer { self.reader = reader }
        while true {
            do throws(NATSError) {
                let (entries, isComplete) = try await reader.changed()
                hasRead = true
                var next = ledger
                if isComplete { next.begin() }
                for entry in entries { next.add(entry) }
                if let suspect = next.end().first { next.lose(suspect.key, suspect.revision, nil) }
                if let error = next.loss {
                    // In a cluster, a server that is late can answer. So a loss counts only if three searches in a row find it.
                    losses += 1
                    guard losses < 3 else { return .failure(error) }
                    reader.restart()
                } else {
                    (ledger, losses) = (next, 0)
                    let records = entries.compactMap { StoredRecord($0, bucket) }
                    if !records.isEmpty { return .success(records) }
                }
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

/// The revisions of the values that were read. It finds out whether the server has lost a value.
private struct RevisionLedger {
    private let bucket: Bucket
    private var revisions: [String: UInt64] = [:]
    /// The keys that were read with an older revision than before, and the revision before.
    private var older: [String: UInt64] = [:]
    /// The values of the snapshot that is being read; nil if no snapshot is being read.
    private var snapshot: [String: UInt64]?
    /// The error that ends the changes; nil if no loss was found.
    private(set) var loss: StoreError?

    init(_ bucket: Bucket) { self.bucket = bucket }

    /// Records that a snapshot of all present values begins.
    mutating func begin() { snapshot = [:] }

    mutating func add(_ entry: KeyValueEntry) {
        snapshot?[entry.key] = entry.revision
        if let known = revisions[entry.key], entry.revision < known {
            older[entry.key] = known
        } else {
            revisions[entry.key] = entry.revision
            older[entry.key] = nil
        }
    }

    /// Records the end of a snapshot or of a search. Returns the keys that may be lost: those with an older revision than before, and those
    /// that the snapshot does not contain. Each key that was read must be in the snapshot, unless the values of the bucket expire: a
    /// deleted key has a marker.
    mutating func end() -> [(key: String, revision: UInt64)] {
        defer { (snapshot, older) = (nil, [:]) }
        let suspects = older.map { (key: $0.key, revision: $0.value) }
        guard let snapshot else { return suspects }
        guard bucket.maximumAge == nil else {
            revisions = snapshot
            return suspects
        }
        return suspects + revisions.filter { snapshot[$0.key] == nil }.map { (key: $0.key, revision: $0.value) }
    }

    mutating func lose(_ key: String, _ known: UInt64, _ present: UInt64?) {
        let state = present.map { "has the revision \($0)" } ?? "does not exist"
        loss = StoreError(
            .recordsLost,
            "the NATS store has lost records: '\(key)' in the bucket \(bucket.rawValue) had the revision \(known), and "
                + "now it \(state)",
            hint:
                "show the rollouts that are left: otaflash rollout list; create a missing rollout again, with a new name"
        )
    }
}
