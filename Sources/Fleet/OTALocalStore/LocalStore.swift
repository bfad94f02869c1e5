internal import CSQLite
internal import DescriptorIO
internal import Glibc
public import OTAFirmware
public import OTAStore
public import SystemPackage

/// A store in a file of this computer. Any number of processes can use the file at the same time. If a process is killed at any moment, the
/// file is not damaged.
///
/// The file is a database of SQLite. An acknowledged write is on the disk. If another process has locked the file, an operation waits for
/// a limited time, and then throws `unavailable`.
///
/// SQLite blocks its thread while it waits for the disk or for a lock. Therefore each store has a thread of its own.
public actor LocalStore: CleanableStore {
    /// The file of the store.
    public nonisolated var path: FilePath { file.path }
    public nonisolated var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }

    private nonisolated let thread: LoopThread
    private nonisolated let file: StoreFile
    private nonisolated let pollInterval: Duration
    private let now: @Sendable () -> StoreTime
    private let skip: @Sendable (StoreError) -> Void
    /// The rows that were passed to `skip`.
    private var skipped: Set<InvalidRow> = []
    /// The connection to the file; nil if the file is closed. After an error, the store closes the file, and opens it again for the next
    /// operation. SQLite then repairs the file with the journal.
    private var database: Database?
    /// The number of times that the file was deleted or replaced while it was open.
    private var replacements = 0
    private var retention: Retention

    /// Opens the store, and creates it if it does not exist. Only the owner can use the created file and folder.
    ///
    /// - Parameters:
    ///   - path: the file. Its folder must be on a disk of this computer, because locks are not reliable in network folders.
    ///   - wait: the maximum time that an operation waits for another process to unlock the file.
    ///   - opening: the same for this initializer; nil: like `wait`.
    ///   - pollInterval: the time between two searches for changes (``withChanges(of:_:)``).
    ///   - historyBytes: the maximum size of all events together, in bytes.
    ///   - now: returns the time that determines the age of records and events.
    ///   - skip: called once for each row with an invalid name, when a list is read. No store writes such a row, and no list contains it.
    /// - Throws: `unavailable`, `corrupt`, `tooNew`, `full`.
    public init(
        _ path: FilePath, waiting wait: Duration = .seconds(5), opening: Duration? = nil,
        pollInterval: Duration = .milliseconds(100),
        historyBytes: Int = StoreLimits.historyBytes, now: @escaping @Sendable () -> StoreTime = LocalStore.wallClock,
        skip: @escaping @Sendable (StoreError) -> Void = { _ in }
    ) async throws(StoreError) {
        do {
            thread = try LoopThread()
        } catch {
            throw StoreError(.unavailable, "cannot use the store \(path): \(error)")
        }
        file = StoreFile(path: path, wait: wait)
        self.pollInterval = pollInterval
        retention = Retention(historyBytes: historyBytes)
        self.now = now
        self.skip = skip
        // All properties have a value now, so the rest of this initializer runs on the thread of the actor.
        let opened = try StoreFile(path: path, wait: opening ?? wait).open()
        opened.wait = wait
        database = opened
    }

    /// Returns the wall-clock time of this computer.
    public static func wallClock() -> StoreTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return StoreTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    // MARK: - Records

    public func read(_ key: RecordKey) throws(StoreError) -> StoredRecord? {
        try query { [oldest = oldest(of: key.bucket)] database throws(DatabaseError) in
            try database.row(
                "SELECT revision, bytes FROM record WHERE bucket = ? AND name = ? AND written >= ?",
                .text(key.bucket.rawValue), .text(key.name.description), .integer(oldest)
            ) { StoredRecord(key: key, revision: Revision(UInt64($0.integer(0).magnitude)), bytes: $0.bytes(1)) }
        }
    }

    public func records(in bucket: Bucket) throws(StoreError) -> [StoredRecord] {
        let records = try query { [oldest = oldest(of: bucket)] database throws(DatabaseError) in
            try database.rows(
                "SELECT rowid, name, revision, bytes FROM record WHERE bucket = ? AND written >= ? ORDER BY revision",
                .text(bucket.rawValue), .integer(oldest)
            ) { StoredRecord.parse($0, bucket) }
        }
        return valid(records)
    }

    /// Returns the records of a bucket whose last write is later than a position, in the order of their revisions, and the new position.
    ///
    /// - Parameter position: the result of the last call; nil: all records are returned.
    /// - Throws: `recordsLost` if the file was replaced or has lost its newest records since the last call.
    func changes(
        in bucket: Bucket, after position: ChangePosition?
    ) throws(StoreError) -> ([StoredRecord], ChangePosition) {
        let last = position?.revision ?? .absent
        // The join returns at least one row, so that one statement reads the records and the counter.
        let rows = try query { [oldest = oldest(of: bucket)] database throws(DatabaseError) in
            try database.rows(
                """
                SELECT record.rowid, record.name, revision, bytes, value FROM counter LEFT JOIN record
                ON bucket = ? AND revision > ? AND written >= ? WHERE counter.name = 'revision' ORDER BY revision
                """,
                .text(bucket.rawValue), .integer(Int64(clamping: last.number)), .integer(oldest)
            ) { row in
                (count: row.integer(4), revision: row.integer(2), record: StoredRecord.parse(row, bucket))
            }
        }
        guard position?.replacements ?? replacements == replacements else { throw file.replaced() }
        guard let newest = rows.last else {
            throw file.corrupt("the store \(path) is damaged: the counter of its writes is missing")
        }
        guard newest.count >= Int64(clamping: last.number) else { throw file.outdated(newest.count) }
        guard newest.revision > 0 else { return ([], ChangePosition(replacements: replacements, revision: last)) }
        return (
            valid(rows.map(\.record)),
            ChangePosition(replacements: replacements, revision: Revision(UInt64(newest.revision)))
        )
    }

    public func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) throws(StoreError) -> WriteOutcome {
        try StoreLimits.check(bytes, at: key)
        let time = now()
        let change = try change { [oldest = oldest(of: key.bucket)] database throws(DatabaseError) -> Revision? in
            let place: [Value] = [.text(key.bucket.rawValue), .text(key.name.description)]
            let current = try database.row(
                "SELECT revision FROM record WHERE bucket = ? AND name = ? AND written >= ?", place[0], place[1],
                .integer(oldest)
            ) { $0.integer(0) }
            guard UInt64((current ?? 0).magnitude) == expected.number else { return nil }
            let revision = try database.add(1, to: "revision")
            try database.run(
                """
                INSERT INTO record (bucket, name, revision, written, bytes) VALUES (?, ?, ?, ?, ?) ON CONFLICT (bucket, name)
                DO UPDATE SET revision = excluded.revision, written = excluded.written, bytes = excluded.bytes
                """,
                place[0], place[1], .integer(revision), .integer(time.milliseconds), .bytes(bytes))
            try retention.prune(database, time)
            return Revision(UInt64(revision.magnitude))
        }
        return switch change {
        case .stored(let revision): .written(revision)
        case .nothing: .conflict
        case .unknown: .unknown
        }
    }

    public func remove(_ key: RecordKey, expecting expected: Revision) throws(StoreError) -> Bool {
        let place: [Value] = [.text(key.bucket.rawValue), .text(key.name.description)]
        let change = try change { database throws(DatabaseError) -> Void? in
            let current = try database.row(
                "SELECT revision FROM record WHERE bucket = ? AND name = ?", place[0], place[1]
            ) { UInt64($0.integer(0).magnitude) }
            guard let current, current == expected.number else { return nil }
            try database.run("DELETE FROM record WHERE bucket = ? AND name = ?", place[0], place[1])
        }
        switch change {
        case .stored: return true
        case .nothing: return false
        case .unknown(let error): throw file.uncertain("the removal of the record \(key)", error)
        }
    }

    public func removeForeign(in bucket: Bucket) throws(StoreError) -> Int {
        let change = try change { database throws(DatabaseError) -> Int in
            let rows = try database.rows("SELECT rowid, name FROM record WHERE bucket = ?", .text(bucket.rawValue)) {
                (number: $0.integer(0), name: $0.text(1))
            }
            let foreign = rows.filter { RecordName($0.name) == nil }
            for row in foreign { try database.run("DELETE FROM record WHERE rowid = ?", .integer(row.number)) }
            return foreign.count
        }
        switch change {
        case .stored(let count): return count
        case .nothing: return 0
        case .unknown(let error): throw file.uncertain("the removal of foreign records", error)
        }
    }

    public nonisolated func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result {
        let poll = ChangePoll(store: self, bucket: bucket, interval: pollInterval)
        return try await body(RecordChanges(AsyncStream { await poll.next() }))
    }

    /// Returns the earliest possible write time of a record that has not expired, in milliseconds since 1970. Returns the minimum integer
    /// if the records of the bucket do not expire.
    private func oldest(of bucket: Bucket) -> Int64 {
        bucket.maximumAge.map { now().before($0).milliseconds } ?? .min
    }

    // MARK: - Objects and events

    public func putObject(_ bytes: [UInt8], digest: SHA256Digest) throws(StoreError) {
        try StoreLimits.check(bytes, digest: digest)
        let change = try change { database throws(DatabaseError) -> Void in
            // If the object already exists, the statement replaces it, because its bytes can be damaged on the disk.
            try database.run(
                "INSERT OR REPLACE INTO object (digest, bytes) VALUES (?, ?)", .bytes(digest.bytes), .bytes(bytes))
        }
        if case .unknown(let error) = change { throw file.uncertain("the object \(digest)", error) }
    }

    public func object(_ digest: SHA256Digest) throws(StoreError) -> [UInt8]? {
        let bytes = try query { database throws(DatabaseError) in
            try database.row("SELECT bytes FROM object WHERE digest = ?", .bytes(digest.bytes)) { $0.bytes(0) }
        }
        guard let bytes else { return nil }
        try StoreLimits.check(bytes, digest: digest)
        return bytes
    }

    public func append(_ event: FleetEvent) throws(StoreError) {
        try StoreLimits.check(event)
        let time = now()
        let change = try change { database throws(DatabaseError) -> Void? in
            let identifier = Value.text(event.identifier)
            let known = try database.row("SELECT number FROM event WHERE identifier = ?", identifier) { $0.integer(0) }
            guard known == nil else { return nil }
            let number = try database.add(1, to: "event")
            try database.run(
                "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                .integer(number), identifier, .text(event.rollout.description), .text(event.device.description),
                .text(event.gateway.description), .integer(Int64(event.attempt)), .text(event.kind.description),
                .bytes(event.bytes), .integer(time.milliseconds))
            try retention.prune(database, time)
            try retention.shorten(database, adding: event.bytes.count)
        }
        if case .unknown(let error) = change { throw file.uncertain("the event \(event.identifier)", error) }
    }

    public func events(after number: UInt64) throws(StoreError) -> [StoredEvent] {
        let oldest = now().before(StoreLimits.eventAge).milliseconds
        let events = try query { database throws(DatabaseError) in
            try database.rows(
                """
                SELECT number, rollout, device, gateway, attempt, kind, bytes FROM event
                WHERE number > ? AND appended >= ? ORDER BY number LIMIT \(StoreLimits.eventsPerRead)
                """,
                .integer(Int64(clamping: number)), .integer(oldest)
            ) { StoredEvent.parse($0) }
        }
        return valid(events)
    }

    // MARK: - Transactions

    private enum Change<Stored> {
        case stored(Stored)
        case nothing
        /// The transaction may be stored. The error is the result of its commit.
        case unknown(DatabaseError)
    }

    @discardableResult
    private func connect() throws(StoreError) -> Database {
        thread.loop.checkIsolated()
        // A connection stays open if its file was deleted. Without this check, this process and the others would use two files.
        if let database, !database.hasMoved { return database }
        close()
        let opened = try file.open()
        database = opened
        return opened
    }

    /// Closes the file, which rolls back an open transaction. The next operation opens the file again.
    private func close() {
        if let database, database.hasMoved { replacements += 1 }
        database = nil
    }

    private func query<Result>(_ body: (Database) throws(DatabaseError) -> Result) throws(StoreError) -> Result {
        let database = try connect()
        do { return try body(database) } catch { throw failure(error) }
    }

    /// Runs `body` in a transaction. If `body` returns nil, the transaction is rolled back.
    private func change<Stored>(
        _ body: (Database) throws(DatabaseError) -> Stored?
    ) throws(StoreError) -> Change<Stored> {
        let database = try connect()
        do throws(DatabaseError) {
            // BEGIN IMMEDIATE locks the file before the first read. If two transactions read first and then tried to write, each would wait
            // for the other. In this case, SQLite does not wait, but returns an error.
            try database.run("BEGIN IMMEDIATE")
            guard let stored = try body(database) else {
                try database.run("ROLLBACK")
                return .nothing
            }
            do {
                try database.run("COMMIT")
            } catch {
                if error.isBeforeCommit { throw error }
                close()
                return .unknown(error)
            }
            return .stored(stored)
        } catch {
            throw failure(error)
        }
    }

    private func failure(_ error: DatabaseError) -> StoreError {
        close()
        return file.error(error)
    }

    /// Returns the elements of the valid rows, and reports each invalid row once. One invalid row must not make the others unreadable.
    private func valid<Element>(_ rows: [Result<Element, InvalidRow>]) -> [Element] {
        rows.compactMap { row in
            switch row {
            case .success(let element): return element
            case .failure(let row):
                if skipped.insert(row).inserted { skip(file.invalid(row)) }
                return nil
            }
        }
    }
}

extension StoredRecord {
    /// Parses a row with the columns rowid, name, revision and bytes.
    fileprivate static func parse(_ row: Row, _ bucket: Bucket) -> Result<StoredRecord, InvalidRow> {
        guard let name = RecordName(row.text(1)) else {
            return .failure(InvalidRow(table: "record", number: row.integer(0), names: [bucket.rawValue, row.text(1)]))
        }
        return .success(
            StoredRecord(
                key: RecordKey(bucket, name), revision: Revision(UInt64(row.integer(2).magnitude)), bytes: row.bytes(3))
        )
    }
}

extension StoredEvent {
    fileprivate static func parse(_ row: Row) -> Result<StoredEvent, InvalidRow> {
        let texts = [1, 2, 3, 5].map { row.text($0) }
        let names = texts.compactMap { RecordName($0) }
        guard names.count == 4 else {
            return .failure(InvalidRow(table: "event", number: row.integer(0), names: texts))
        }
        return .success(
            StoredEvent(
                number: UInt64(row.integer(0).magnitude),
                event: FleetEvent(
                    rollout: names[0], device: names[1], gateway: names[2], attempt: UInt32(clamping: row.integer(4)),
                    kind: names[3], bytes: row.bytes(6))))
    }
}
