/// A stream of JetStream: stored messages with increasing sequence numbers.
///
/// Buckets and object stores are streams with rules for their subjects. This type reads messages with `DIRECT.GET`, which needs no
/// consumer. Reading needs only the permission to publish to `$JS.API.DIRECT.GET.NAME` and `$JS.API.DIRECT.GET.NAME.>`, where NAME is the
/// stream.
public struct StoredStream: Sendable {
    public let name: String
    public let client: NATSClient
    /// The prefix of the subjects for administration. With another prefix than ``defaultAPIPrefix``, an account imports the API of another
    /// account.
    let apiPrefix: String

    /// The API prefix of the client's own account.
    public static let defaultAPIPrefix = "$JS.API"

    /// Creates a value that accesses this stream over the client. The initializer sends nothing, and does not check whether the stream
    /// exists.
    ///
    /// - Parameter apiPrefix: the prefix of the subjects for administration, such as the creation of the stream.
    ///
    /// - Throws: `invalidArguments` if the name is not made of 1 to 128 letters, digits, `_` and `-`.
    public init(
        _ name: String, _ client: NATSClient, apiPrefix: String = StoredStream.defaultAPIPrefix
    ) throws(NATSError) {
        guard Subject.isToken(name) else { throw NATSError(.invalidArguments, "'\(name)' is not the name of a stream") }
        self.name = name
        self.client = client
        self.apiPrefix = apiPrefix
    }

    /// A stored message.
    public struct Message: Sendable {
        public let subject: String
        public let sequence: UInt64
        public let headers: NATSHeaders
        public let payload: [UInt8]
    }

    // MARK: - Writing

    /// Stores a message and returns its sequence number.
    ///
    /// - Parameters:
    ///   - identifier: a text that identifies the message, or nil for a message without an identifier. If the stream received a message
    ///     with the same identifier within its duplicate window, it does not store the new message. The method then returns the sequence
    ///     number of the earlier message.
    ///   - expecting: the sequence number that the last message with this subject must have. With 0, the stream must not have such a
    ///     message. With nil, the server does not check this.
    ///
    /// - Throws: the errors of ``NATSClient/request(_:headers:_:timeout:)``; `conflict`, `tryAgain`, `storeFull`, `tooLarge`,
    ///   `serverError`.
    public func store(
        _ payload: [UInt8], subject: String, headers: NATSHeaders = NATSHeaders(), identifier: String? = nil,
        expecting: UInt64? = nil
    ) async throws(NATSError) -> UInt64 {
        var headers = headers
        if let identifier { headers["Nats-Msg-Id"] = identifier }
        if let expecting { headers["Nats-Expected-Last-Subject-Sequence"] = "\(expecting)" }
        let reply = try await client.request(subject, headers: headers, payload)
        let what = "cannot store a message with the subject \(subject)"
        let answer = try JetStreamJSON.decode(PublicationAnswer.self, reply.payload, what)
        guard answer.stream == name, answer.sequence > 0 else {
            throw .malformed("answer to '\(what)'", cause: "stream \(answer.stream), sequence \(answer.sequence)")
        }
        return answer.sequence
    }

    // MARK: - Reading

    /// Returns the last message with this subject; nil if the stream has no such message.
    ///
    /// - Throws: the errors of ``NATSClient/request(_:headers:_:timeout:)``. If the stream does not exist, the error is
    ///   `noResponders`, or `timedOut` with an old server such as 2.9.
    public func last(subject: String) async throws(NATSError) -> Message? {
        try await direct("\(name).\(subject)", [], matching: subject)
    }

    /// Returns the first message that has at least this sequence number and a subject that matches `filter`; nil if the stream has no such
    /// message.
    public func next(from sequence: UInt64, filter: String) async throws(NATSError) -> Message? {
        struct Request: Encodable {
            var seq: UInt64
            var next_by_subj: String
        }
        let request = try JetStreamJSON.encode(Request(seq: max(1, sequence), next_by_subj: filter))
        let message = try await direct(name, request, matching: filter)
        if let message, message.sequence < sequence {
            throw .malformed("message", cause: "sequence \(message.sequence) instead of at least \(sequence)")
        }
        return message
    }

    /// Returns the newest message whose subject matches `filter`, which may contain wildcards; nil if the stream has no such message.
    func newest(filter: String) async throws(NATSError) -> Message? {
        struct Request: Encodable { var last_by_subj: String }
        return try await direct(name, try JetStreamJSON.encode(Request(last_by_subj: filter)), matching: filter)
    }

    private func direct(_ subject: String, _ request: [UInt8], matching filter: String) async throws(NATSError)
        -> Message?
    {
        let reply = try await client.request("$JS.API.DIRECT.GET.\(subject)", request)
        if let status = reply.status {
            if status == 404 { return nil }
            throw NATSError(
                .serverError, "the server refused to read stream \(name)", cause: reply.statusText, serverCode: status)
        }
        guard let stored = Message(reply, stream: name), Subject.matches(stored.subject, filter) else {
            throw .malformed("stored message of stream \(name)")
        }
        return stored
    }

    // MARK: - Administration

    /// The settings of a stream.
    struct Settings: Encodable {
        var name: String
        var subjects: [String]
        var storage = "file"
        var retention = "limits"
        var discard = "new"
        var num_replicas = 1
        var max_age: Int64 = 0
        var max_bytes: Int64 = -1
        var max_msgs: Int64 = -1
        var max_msgs_per_subject: Int64 = -1
        var max_msg_size: Int64 = -1
        var max_consumers: Int64 = -1
        var duplicate_window: Int64 = 120_000_000_000
        var allow_direct = true
        var allow_rollup_hdrs = false
        var deny_delete = false
        var consumer_limits: ConsumerLimits?

        struct ConsumerLimits: Encodable {
            var inactive_threshold: Int64
        }
    }

    /// Creates the stream. This method does nothing if the stream already exists with the same settings.
    ///
    /// - Throws: `otherSettings` if the stream exists with other settings.
    func create(_ settings: Settings) async throws(NATSError) {
        let _: StreamAnswer = try await call("STREAM.CREATE.\(name)", settings, "cannot create stream \(name)")
    }

    /// Creates a stream for messages with any of `subjects`. When the stream reaches its maximum size, it removes its oldest messages. This
    /// method does nothing if the stream already exists with the same settings.
    ///
    /// - Parameters:
    ///   - maximumAge: the time after which a message is removed.
    ///   - maximumBytes: the maximum size of the stream in bytes.
    ///   - duplicateWindow: the time in which the stream does not store a second message with the same identifier.
    public func create(
        subjects: [String], maximumAge: Duration, maximumBytes: Int, duplicateWindow: Duration = .seconds(120),
        replicas: Int = 1
    ) async throws(NATSError) {
        var settings = Settings(name: name, subjects: subjects)
        settings.discard = "old"
        settings.max_age = maximumAge.nanoseconds
        settings.max_bytes = Int64(maximumBytes)
        settings.duplicate_window = duplicateWindow.nanoseconds
        settings.num_replicas = replicas
        try await create(settings)
    }

    /// Returns the number of servers that store the stream.
    ///
    /// - Throws: `notFound` if the stream does not exist.
    public func replicas() async throws(NATSError) -> Int {
        let answer: StreamAnswer = try await call(
            "STREAM.INFO.\(name)", NoSettings(), "cannot read the settings of stream \(name)")
        return answer.config.num_replicas
    }

    /// Deletes the stream with all its messages.
    public func delete() async throws(NATSError) {
        let _: SuccessAnswer = try await call("STREAM.DELETE.\(name)", NoSettings(), "cannot delete stream \(name)")
    }

    private struct NoSettings: Encodable {}

    /// Removes the messages with this subject.
    ///
    /// - Parameter before: a sequence number: only messages with a lower one are removed; nil: all.
    /// - Returns: the number of removed messages.
    @discardableResult
    package func purge(subject: String, before: UInt64? = nil) async throws(NATSError) -> Int {
        struct Request: Encodable {
            var filter: String
            var seq: UInt64?
        }
        struct Answer: Decodable { var purged: Int }
        let answer: Answer = try await call(
            "STREAM.PURGE.\(name)", Request(filter: subject, seq: before), "cannot purge \(subject)")
        return answer.purged
    }

    /// Returns the subjects of all stored messages.
    func subjects() async throws(NATSError) -> [String] {
        struct Request: Encodable {
            var subjects_filter = ">"
            var offset: Int
        }
        struct Answer: Decodable {
            struct State: Decodable { var subjects: [String: Int]? }
            var state: State
            var total: Int?
        }
        var subjects: [String] = []
        // The server returns at most 100,000 subjects at once.
        while true {
            let answer: Answer = try await call(
                "STREAM.INFO.\(name)", Request(offset: subjects.count), "cannot list the subjects of stream \(name)")
            let page = answer.state.subjects ?? [:]
            subjects += page.keys
            guard !page.isEmpty, subjects.count < answer.total ?? 0 else { return subjects }
        }
    }

    /// Sends a request to the API of JetStream and decodes its answer.
    func call<Answer: Decodable>(
        _ subject: String, _ request: some Encodable, _ what: String
    ) async throws(NATSError) -> Answer {
        let reply = try await client.request("\(apiPrefix).\(subject)", try JetStreamJSON.encode(request))
        return try JetStreamJSON.decode(Answer.self, reply.payload, what)
    }
}

extension StoredStream.Message {
    /// Reads the answer to a `DIRECT.GET`. Returns nil if a header is missing or malformed, or if the message is from another stream.
    init?(_ reply: NATSMessage, stream: String) {
        guard reply.headers["Nats-Stream"] == stream, let subject = reply.headers["Nats-Subject"],
            // The limit lets a reader add numbers without a check.
            let sequence = reply.headers["Nats-Sequence"].flatMap({ UInt64($0) }), (1..<1 << 62).contains(sequence)
        else { return nil }
        (self.subject, self.sequence, headers, payload) = (subject, sequence, reply.headers, reply.payload)
    }
}

extension Subject {
    /// Whether the subject of a message matches a filter. Another client can use characters in its subjects that this library does not use.
    static func matches(_ subject: String, _ filter: String) -> Bool {
        let (subject, filter) = (subject.split(separator: "."), filter.split(separator: "."))
        for (index, token) in filter.enumerated() {
            if token == ">" { return subject.count > index }
            guard index < subject.count, token == "*" || token == subject[index] else { return false }
        }
        return subject.count == filter.count
    }
}

extension Duration {
    var nanoseconds: Int64 { Int64(min(max(.zero, self), .seconds(1 << 32)) / .nanoseconds(1)) }
}
