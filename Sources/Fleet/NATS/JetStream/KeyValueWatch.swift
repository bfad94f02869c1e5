/// A change of a bucket.
public enum KeyValueChange: Sendable, Equatable {
    /// A snapshot starts: all present values follow, and then `snapshotEnded`. A watch starts with a snapshot. The watch starts a new
    /// snapshot after the connection or a message was lost.
    ///
    /// A value that is replaced before the server has sent it arrives with the later values of the snapshot. If the new snapshot does not
    /// contain a key of an earlier snapshot, this key no longer exists, or it was replaced several times while the snapshot was read.
    case started
    case entry(KeyValueEntry)
    case snapshotEnded
}

/// The present values of a bucket, followed by the changes in the order of their revisions.
///
/// The server sends the values through an ordered consumer, which belongs to the connection. If the connection is interrupted or a message
/// is missing, the watch creates a new consumer, and starts again with all present values. The watch throws an error if a new attempt
/// cannot succeed. It also throws `noResponders` if this error ends its first attempt. If a key changes several times, intermediate values
/// can be missing.
public struct KeyValueWatch: AsyncSequence, Sendable {
    public typealias Element = KeyValueChange
    public typealias Failure = NATSError

    let bucket: KeyValueBucket
    let filter: String
    let headersOnly: Bool

    public func makeAsyncIterator() -> Iterator { Iterator(watch: self) }

    /// The time between two heartbeats, which the server sends while no value changes.
    static let heartbeat = Duration.seconds(2)
    /// The maximum number of times `heartbeat` without a message from the server. After one more time, the watch creates a new consumer.
    static let lostAfter = 3
    /// The maximum number of received messages that wait for the reader of the watch. The flow control of the server keeps the number far
    /// below this.
    static let limit = 262_144

    public struct Iterator: AsyncIteratorProtocol {
        let watch: KeyValueWatch
        private var consumer: Consumer?
        private var hasStarted = false
        private var isEnded = false
        private var wait = Duration.milliseconds(100)

        init(watch: KeyValueWatch) { self.watch = watch }

        public mutating func next() async throws(NATSError) -> KeyValueChange? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(NATSError) -> KeyValueChange? {
            guard !isEnded else { return nil }
            do throws(NATSError) {
                while true {
                    if consumer != nil {
                        if let change = try await consumer?.next(isolation: actor) { return change }
                        consumer = nil
                    }
                    if try await start() { return .started }
                }
            } catch {
                (isEnded, consumer) = (true, nil)
                throw error
            }
        }

        /// Creates a consumer and returns true. If the creation fails but a later attempt may succeed, the method waits and then returns
        /// false.
        private mutating func start() async throws(NATSError) -> Bool {
            do throws(NATSError) {
                consumer = try await Consumer(watch)
                hasStarted = true
                wait = .milliseconds(100)
                return true
            } catch {
                switch error.code {
                case .notConnected, .disconnected, .timedOut, .tryAgain: break
                // A server that has just started does not answer yet, so a watch that has already started tries again. The first attempt of
                // a watch fails at once, so its caller gets the error.
                case .noResponders where hasStarted: break
                default: throw error
                }
                do { try await Task.sleep(for: wait, clock: .continuous) } catch { throw .taskCancelled }
                wait = Swift.min(wait * 2, .seconds(2))
                return false
            }
        }
    }
}

/// An ephemeral consumer. The server sends its messages to a subscription of this connection. A few seconds after the subscription has
/// ended, the server removes the consumer.
private struct Consumer {
    private struct Request: Encodable {
        struct Configuration: Encodable {
            var deliver_subject: String
            var filter_subject: String
            var headers_only: Bool
            var deliver_policy = "last_per_subject"
            var ack_policy = "none"
            var replay_policy = "instant"
            var max_deliver = 1
            var flow_control = true
            var idle_heartbeat = KeyValueWatch.heartbeat.nanoseconds
            var mem_storage = true
            var num_replicas = 1
        }

        var stream_name: String
        var config: Configuration
    }

    private let watch: KeyValueWatch
    private var events: AsyncStream<SubscriptionEvent>.Iterator
    private let ticker: Ticker
    private var silentTicks = 0
    /// The number of received values. The server numbers the messages of a consumer from 1, so a missing number shows a lost message.
    private var received: UInt64 = 0
    /// The sequence number of the last received value.
    private var lastSequence: UInt64 = 0
    /// The number of present values when the consumer was created.
    private let present: UInt64
    /// True after the server has sent this number of values, or has reported that no value waits. Values can still follow: a value that was
    /// replaced before it was sent follows after the others, and the server's count can be too low while values are replaced.
    private var isListed: Bool
    /// The sequence number of the newest value after `isListed` became true. The snapshot ends with this value or a newer one.
    private var newest: UInt64?
    private var isSnapshotEnded = false

    init(_ watch: KeyValueWatch) async throws(NATSError) {
        self.watch = watch
        let client = watch.bucket.stream.client
        let inbox = "\(client.options.inboxPrefix).\(NATSConnection.randomToken())"
        let stream = try await client.connection.subscribe(inbox, limit: KeyValueWatch.limit)
        events = stream.makeAsyncIterator()
        let name = watch.bucket.stream.name
        let request = Request(
            stream_name: name,
            config: Request.Configuration(
                deliver_subject: inbox, filter_subject: watch.bucket.prefix + watch.filter,
                headers_only: watch.headersOnly))
        let answer: ConsumerAnswer = try await watch.bucket.stream.call(
            "CONSUMER.CREATE.\(name)", request, "cannot watch bucket \(watch.bucket.name)")
        present = answer.pending
        isListed = present == 0
        ticker = Ticker(client.connection, inbox)
    }

    /// Returns the next change; nil if the consumer is lost.
    mutating func next(isolation actor: isolated (any Actor)?) async throws(NATSError) -> KeyValueChange? {
        if isListed, !isSnapshotEnded {
            if newest == nil { newest = try await newestSequence() }
            if let newest, newest <= lastSequence { return endSnapshot() }
        }
        while true {
            switch try await events.nextEvent(isolation: actor) {
            case .failed(let error): throw error
            case .reconnected: return nil
            case .tick:
                silentTicks += 1
                if silentTicks > KeyValueWatch.lostAfter { return nil }
            case .message(let message):
                silentTicks = 0
                if let status = message.status {
                    guard try await answer(message, status) else { return nil }
                    // The server sends this heartbeat if it has no value to send. It can have removed values that had expired.
                    if !isSnapshotEnded, message.headers["Nats-Last-Consumer"] != nil,
                        message.headers["Nats-Consumer-Stalled"] == nil
                    {
                        return endSnapshot()
                    }
                } else {
                    return try entry(message)
                }
            }
        }
    }

    /// Returns the sequence number of the newest value. Returns 0 if the bucket is empty or the read failed.
    private func newestSequence() async throws(NATSError) -> UInt64 {
        do throws(NATSError) {
            return try await watch.bucket.stream.newest(filter: watch.bucket.prefix + watch.filter)?.sequence ?? 0
        } catch {
            guard error.code != .cancelled else { throw error }
            return 0
        }
    }

    private mutating func endSnapshot() -> KeyValueChange {
        isSnapshotEnded = true
        return .snapshotEnded
    }

    /// Answers a heartbeat or a request of the flow control. Returns false if the consumer is lost.
    private func answer(_ message: NATSMessage, _ status: Int) async throws(NATSError) -> Bool {
        guard status == 100 else { return false }
        // A heartbeat contains the number of the consumer's last message. If this number is not `received`, messages are lost.
        if let last = message.headers["Nats-Last-Consumer"].flatMap({ UInt64($0) }), last != received { return false }
        if let reply = message.reply ?? message.headers["Nats-Consumer-Stalled"] {
            do { try await watch.bucket.stream.client.publish(reply) } catch { return false }
        }
        return true
    }

    private mutating func entry(_ message: NATSMessage) throws(NATSError) -> KeyValueChange? {
        guard let position = DeliveryPosition(message.reply),
            let entry = KeyValueEntry(
                StoredStream.Message(
                    subject: message.subject, sequence: position.stream, headers: message.headers,
                    payload: message.payload),
                prefix: watch.bucket.prefix)
        else { throw .malformed("change of bucket \(watch.bucket.name)") }
        guard position.consumer == received &+ 1 else { return nil }
        (received, lastSequence) = (position.consumer, position.stream)
        if received >= present || position.pending == 0 { isListed = true }
        return .entry(entry)
    }
}

/// The numbers in the reply subject of a delivered message.
package struct DeliveryPosition: Equatable {
    package var stream: UInt64
    package var consumer: UInt64
    package var pending: UInt64

    /// Reads `$JS.ACK.STREAM.CONSUMER.DELIVERED.STREAM-SEQUENCE.CONSUMER-SEQUENCE.TIME.PENDING`. In a newer form, a domain and an account
    /// precede the name of the stream, and a random token can follow.
    package init?(_ reply: String?) {
        guard let reply else { return nil }
        let tokens = reply.split(separator: ".", omittingEmptySubsequences: false)
        let offset = tokens.count == 9 ? 0 : 2
        guard tokens.count == 9 || tokens.count == 11 || tokens.count == 12, tokens[0] == "$JS", tokens[1] == "ACK",
            let stream = UInt64(tokens[5 + offset]), let consumer = UInt64(tokens[6 + offset]),
            let pending = UInt64(tokens[8 + offset])
        else { return nil }
        (self.stream, self.consumer, self.pending) = (stream, consumer, pending)
    }
}

/// Posts a tick to a subscription after each period of the heartbeat, until the ticker is released.
private final class Ticker: Sendable {
    private let task: Task<Void, Never>

    init(_ connection: NATSConnection, _ subject: String) {
        task = Task.detached { [weak connection] in
            while (try? await Task.sleep(for: KeyValueWatch.heartbeat, clock: .continuous)) != nil {
                guard let connection else { return }
                connection.tick(subject)
            }
        }
    }

    deinit { task.cancel() }
}
