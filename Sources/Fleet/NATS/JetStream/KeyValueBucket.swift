/// A key-value bucket of JetStream. Each key has a value with a revision. A write succeeds only if the present value has the expected
/// revision.
///
/// The bucket BUCKET is the stream `KV_BUCKET`. A value of the key KEY is a message with the subject `$KV.BUCKET.KEY`. Source: ADR-8 of the
/// NATS project. Other clients can use the same bucket.
public struct KeyValueBucket: Sendable {
    public let name: String
    public let stream: StoredStream

    /// Creates a value that accesses this bucket over the client. The initializer sends nothing, and does not check whether the bucket
    /// exists.
    ///
    /// - Throws: `invalidArguments` if the name is not made of letters, digits, `_` and `-`.
    public init(
        _ name: String, _ client: NATSClient, apiPrefix: String = StoredStream.defaultAPIPrefix
    ) throws(NATSError) {
        self.name = name
        stream = try StoredStream("KV_\(name)", client, apiPrefix: apiPrefix)
    }

    /// The client that the bucket uses.
    public var client: NATSClient { stream.client }

    /// The settings of a new bucket.
    public struct Settings: Sendable {
        /// The number of values that the bucket keeps for each key: 1 to 64.
        public var history = 1
        /// The age at which the server removes a value; nil: values do not expire.
        public var maximumAge: Duration?
        /// The maximum size of a value with its headers, in bytes; nil: no limit.
        public var maximumValueSize: Int?
        /// The maximum size of the whole bucket, in bytes; nil: no limit.
        public var maximumBytes: Int?
        /// The maximum number of keys; nil: no limit.
        public var maximumKeys: Int?
        /// The maximum number of consumers; nil: no limit.
        public var maximumConsumers: Int?
        /// The maximum lifetime of an unused consumer; nil: no limit. Servers before 2.10 ignore it.
        public var maximumConsumerAge: Duration?
        /// Whether a value may have the header `Nats-Rollup`, which removes other values: those of the whole bucket with `all`.
        public var permitsRollups = true
        /// The number of servers that store the bucket: 1, 3 or 5.
        public var replicas = 1

        public init() {}
    }

    /// Creates the bucket. This method does nothing if the bucket already exists with the same settings.
    ///
    /// - Throws: the errors of a request; `otherSettings` if the bucket exists with other settings.
    public func create(_ settings: Settings = Settings()) async throws(NATSError) {
        var stored = StoredStream.Settings(name: stream.name, subjects: ["\(prefix)>"])
        stored.max_msgs_per_subject = Int64(settings.history)
        stored.max_age = settings.maximumAge?.nanoseconds ?? 0
        if stored.max_age > 0 { stored.duplicate_window = min(stored.duplicate_window, stored.max_age) }
        stored.max_msg_size = Int64(settings.maximumValueSize ?? -1)
        stored.max_bytes = Int64(settings.maximumBytes ?? -1)
        stored.max_msgs = Int64(settings.maximumKeys ?? -1)
        stored.max_consumers = Int64(settings.maximumConsumers ?? -1)
        stored.consumer_limits = settings.maximumConsumerAge.map { .init(inactive_threshold: $0.nanoseconds) }
        stored.num_replicas = settings.replicas
        stored.allow_rollup_hdrs = settings.permitsRollups
        stored.deny_delete = true
        try await stream.create(stored)
    }

    // MARK: - Values

    /// Returns the last value of a key. Returns nil if the key was never written, or if the server has removed the value because of its
    /// age. If a client has deleted the key, ``KeyValueEntry/isDeleted`` is true in the returned entry.
    public func get(_ key: String) async throws(NATSError) -> KeyValueEntry? {
        guard let message = try await stream.last(subject: try subject(key)) else { return nil }
        return try entry(message)
    }

    /// Returns the first stored value, of any key, that has at least this revision; nil if there is no such value. The user needs no
    /// permission to create consumers.
    public func next(from revision: UInt64) async throws(NATSError) -> KeyValueEntry? {
        guard let message = try await stream.next(from: revision, filter: "\(prefix)>") else { return nil }
        return try entry(message)
    }

    /// Returns the newest stored value of the bucket, of any key; nil if the bucket is empty. The user needs no permission to create
    /// consumers.
    public func newest() async throws(NATSError) -> KeyValueEntry? {
        guard let message = try await stream.newest(filter: "\(prefix)>") else { return nil }
        return try entry(message)
    }

    /// Returns the stored values of a key, the oldest one first.
    public func history(_ key: String) async throws(NATSError) -> [KeyValueEntry] {
        let subject = try subject(key)
        var (entries, sequence) = ([KeyValueEntry](), UInt64(1))
        // A bucket keeps at most 64 values for a key. The limit of 1,000 ends the loop if a faulty server returns messages without end.
        while entries.count < 1_000, let message = try await stream.next(from: sequence, filter: subject) {
            entries.append(try entry(message))
            sequence = message.sequence &+ 1
        }
        return entries
    }

    /// Writes a value and returns its revision.
    ///
    /// - Parameter revision: the revision that the present value must have. With 0, the key must have no value or be deleted.
    ///
    /// - Throws: the errors of ``NATSClient/request(_:headers:_:timeout:)``; `conflict` if the present value has another revision;
    ///   `tryAgain`, `storeFull`, `tooLarge`, `serverError`. After an error with ``NATSError/isOutcomeUnknown``, read the value to learn
    ///   whether it was written.
    public func write(_ value: [UInt8], _ key: String, expecting revision: UInt64) async throws(NATSError) -> UInt64 {
        do { return try await writeOnce(value, key, revision) } catch  where error.code == .conflict && revision == 0 {
            guard let present = try await get(key), present.isDeleted else { throw error }
            return try await writeOnce(value, key, present.revision)
        }
    }

    /// The maximum number of attempts to write a value. The bucket repeats an attempt only after the error `tryAgain`.
    private static let attempts = 7

    private func writeOnce(_ value: [UInt8], _ key: String, _ revision: UInt64) async throws(NATSError) -> UInt64 {
        var wait = Duration.milliseconds(20)
        for _ in 1..<Self.attempts {
            do { return try await stream.store(value, subject: try subject(key), expecting: revision) } catch
                where error.code == .tryAgain
            {
                do { try await Task.sleep(for: wait, clock: .continuous) } catch { throw .taskCancelled }
                wait *= 2
            }
        }
        return try await stream.store(value, subject: try subject(key), expecting: revision)
    }

    /// Removes the value of a key if it still has this revision. No marker stays, and a watch does not report it.
    ///
    /// - Parameter key: also a key that ``write(_:_:expecting:)`` does not accept, from ``allKeys()``.
    /// - Returns: false if the value has another revision, or if the key has no value.
    public func remove(_ key: String, revision: UInt64) async throws(NATSError) -> Bool {
        try await stream.purge(subject: prefix + key, before: revision &+ 1) > 0
    }

    /// Returns the keys of all values, also of keys that no client of this library writes. The user needs the permission for `STREAM.INFO`.
    public func allKeys() async throws(NATSError) -> [String] {
        try await stream.subjects().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
    }

    // MARK: - All keys

    /// Returns all values that are not deleted, in the order of their revisions. The user needs the permission to create consumers.
    public func entries() async throws(NATSError) -> [KeyValueEntry] { try await snapshot(headersOnly: false) }

    /// Returns the keys whose values are not deleted. The user needs the permission to create consumers.
    public func keys() async throws(NATSError) -> [String] { try await snapshot(headersOnly: true).map(\.key) }

    private func snapshot(headersOnly: Bool) async throws(NATSError) -> [KeyValueEntry] {
        var changes = KeyValueWatch(bucket: self, filter: ">", headersOnly: headersOnly).makeAsyncIterator()
        var entries: [String: KeyValueEntry] = [:]
        while let change = try await changes.next() {
            switch change {
            case .started: entries = [:]
            case .entry(let entry): entries[entry.key] = entry
            case .snapshotEnded:
                return entries.values.filter { !$0.isDeleted }.sorted { $0.revision < $1.revision }
            }
        }
        throw .taskCancelled
    }

    /// Returns a sequence of all present values, followed by the changes. See ``KeyValueWatch``.
    ///
    /// - Parameter filter: a key, or a pattern for keys. In a pattern, a token can be `*`, and the last token can be `>`.
    ///
    /// - Throws: `invalidArguments`.
    public func watch(_ filter: String = ">") throws(NATSError) -> KeyValueWatch {
        guard Subject.isSubject(filter) else {
            throw NATSError(.invalidArguments, "'\(filter)' is not a key of a bucket")
        }
        return KeyValueWatch(bucket: self, filter: filter, headersOnly: false)
    }

    // MARK: - Subjects

    var prefix: String { "$KV.\(name)." }

    private func subject(_ key: String) throws(NATSError) -> String {
        guard Subject.isLiteral(key) else { throw NATSError(.invalidArguments, "'\(key)' is not a key of a bucket") }
        return prefix + key
    }

    private func entry(_ message: StoredStream.Message) throws(NATSError) -> KeyValueEntry {
        guard let entry = KeyValueEntry(message, prefix: prefix) else { throw .malformed("value of bucket \(name)") }
        return entry
    }
}

/// A value of a key in a bucket.
public struct KeyValueEntry: Sendable, Equatable {
    public let key: String
    /// The sequence number of the value in the bucket's stream. All keys of a bucket share one counter.
    public let revision: UInt64
    public let value: [UInt8]
    /// True if a client deleted the key, or if the server reports that it has removed the value. `value` is then empty.
    public let isDeleted: Bool

    init?(_ message: StoredStream.Message, prefix: String) {
        guard message.subject.hasPrefix(prefix), message.subject.utf8.count > prefix.utf8.count else { return nil }
        key = String(message.subject.dropFirst(prefix.count))
        revision = message.sequence
        value = message.payload
        // A server of version 2.11 or later can report the removal of a value, for example because of its age. This report has the header
        // `Nats-Marker-Reason`.
        isDeleted =
            ["DEL", "PURGE"].contains(message.headers["KV-Operation"]) || message.headers["Nats-Marker-Reason"] != nil
    }
}
