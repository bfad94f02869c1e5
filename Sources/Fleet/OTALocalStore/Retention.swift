internal import CSQLite
internal import OTAStore

/// Deletes expired records and events, and the oldest events of a history that is too large.
struct Retention {
    /// The maximum size of all events together, in bytes.
    let historyBytes: Int
    /// The time of the last deletion of expired records and events; nil before the first deletion.
    private var lastPruning: StoreTime?

    init(historyBytes: Int) { self.historyBytes = historyBytes }

    /// Deletes expired records and events, at most once a minute. Reads never return them, so the deletion only frees space.
    mutating func prune(_ database: Database, _ time: StoreTime) throws(DatabaseError) {
        if let lastPruning, lastPruning <= time, time.before(.seconds(60)) < lastPruning { return }
        lastPruning = time
        for bucket in Bucket.allCases {
            guard let age = bucket.maximumAge else { continue }
            try database.run(
                "DELETE FROM record WHERE bucket = ? AND written < ?", .text(bucket.rawValue),
                .integer(time.before(age).milliseconds))
        }
        let lengths = try database.rows(
            "DELETE FROM event WHERE appended < ? RETURNING length(bytes)",
            .integer(time.before(StoreLimits.eventAge).milliseconds)
        ) { $0.integer(0) }
        _ = try database.add(-lengths.reduce(0, +), to: "history")
    }

    /// Adds `count` bytes to the size of the history, and deletes the oldest events until the history has at most its maximum size.
    func shorten(_ database: Database, adding count: Int) throws(DatabaseError) {
        var size = try database.add(Int64(count), to: "history")
        while size > historyBytes {
            let length = try database.row(
                "DELETE FROM event WHERE number = (SELECT min(number) FROM event) RETURNING length(bytes)"
            ) { $0.integer(0) }
            guard let length else { return }
            size = try database.add(-length, to: "history")
        }
    }
}

extension Database {
    /// Adds `difference` to a counter of the store, and returns its new value.
    func add(_ difference: Int64, to counter: String) throws(DatabaseError) -> Int64 {
        let value = try row(
            "UPDATE counter SET value = value + ? WHERE name = ? RETURNING value", .integer(difference), .text(counter)
        ) { $0.integer(0) }
        guard let value else { throw DatabaseError(SQLITE_CORRUPT, "the counter \(counter) is missing") }
        return value
    }
}
