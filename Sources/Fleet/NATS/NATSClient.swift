/// A connection to NATS servers: requests, publications and subscriptions.
///
/// If the connection is interrupted, the library tries to restore it, without a limit of attempts. Until the connection is restored, calls
/// that send a message throw `notConnected`, and the library keeps no message for later. The connection ends for good after ``close()``, or
/// if a server refuses the credentials twice in a row.
public final class NATSClient: Sendable {
    let connection: NATSConnection
    public let options: NATSOptions

    private init(connection: NATSConnection, options: NATSOptions) {
        self.connection = connection
        self.options = options
    }

    /// Connects to the first server that can be reached.
    ///
    /// - Throws: `invalidArguments`, `connectionFailed`, `tlsFailed`, `authorizationFailed`; `permissionDenied` if the user may not
    ///   subscribe to replies at the inbox prefix; `resourcesExhausted`.
    public static func open(_ options: NATSOptions) async throws(NATSError) -> NATSClient {
        NATSClient(connection: try await NATSConnection.open(options), options: options)
    }

    /// Opens a connection, runs `body` with the connection, and closes the connection. Throws the errors of `open` and of `body`.
    @discardableResult public static func withClient<Result: Sendable>(
        _ options: NATSOptions, _ body: (NATSClient) async throws -> Result
    ) async throws -> Result {
        try await open(options).closing(body)
    }

    /// Runs `body` with this connection, and closes the connection after it. Throws the errors of `body`.
    package func closing<Result: Sendable>(_ body: (NATSClient) async throws -> Result) async throws -> Result {
        do {
            let result = try await body(self)
            await close()
            return result
        } catch {
            await close()
            throw error
        }
    }

    /// Closes the connection. Waiting requests and subscriptions throw `closed`. A second call has no effect.
    public func close() async { await connection.close() }

    /// The current state of the connection.
    public var state: NATSConnectionState { connection.state.current }

    /// Returns a stream of the current state and all later states. The stream ends after `closed`.
    public func states() -> AsyncStream<NATSConnectionState> { connection.state.states() }

    /// Sends a message. The server does not reply, so no error reports that it refused the message, or that the message was lost after the
    /// send.
    ///
    /// - Parameter subject: a subject without wildcards.
    ///
    /// - Throws: `invalidArguments`, `notConnected`, `disconnected`, `closed`, `tooLarge`.
    public func publish(
        _ subject: String, headers: NATSHeaders = NATSHeaders(), _ payload: [UInt8] = []
    ) async throws(NATSError) {
        try await connection.publish(subject, headers: headers, payload: payload)
    }

    /// Sends a request and returns the first reply.
    ///
    /// - Parameters:
    ///   - subject: a subject without wildcards.
    ///   - timeout: the maximum time to wait for the reply; nil for ``NATSOptions/requestTimeout``.
    ///
    /// - Throws: after `invalidArguments`, `notConnected`, `noResponders`, `permissionDenied` or `tooLarge`, the request had no effect.
    ///   After `timedOut`, `disconnected`, `closed`, `cancelled` or `protocolError`, it may have had an effect.
    public func request(
        _ subject: String, headers: NATSHeaders = NATSHeaders(), _ payload: [UInt8] = [], timeout: Duration? = nil
    ) async throws(NATSError) -> NATSMessage {
        try await connection.request(
            subject, headers: headers, payload: payload, timeout: timeout ?? options.requestTimeout)
    }

    /// Subscribes to a subject, which may contain wildcards. The subscription ends when the returned sequence and its iterators are
    /// released. Messages are lost while the connection is interrupted.
    ///
    /// - Parameter limit: the maximum number of received messages that wait for the reader of the sequence.
    ///
    /// - Throws: `invalidArguments`, `closed`. The sequence throws `permissionDenied` if the server refuses the subscription,
    ///   `slowReader` if more than `limit` messages wait, `closed`, `protocolError` or `cancelled`.
    public func subscribe(_ subject: String, limit: Int = 65_536) async throws(NATSError) -> NATSSubscription {
        NATSSubscription(events: try await connection.subscribe(subject, limit: limit), connection: connection)
    }
}

/// The messages of a subscription. Only one task may read the sequence. The sequence holds a reference to the connection.
public struct NATSSubscription: AsyncSequence, Sendable {
    public typealias Element = NATSMessage
    public typealias Failure = NATSError

    let events: AsyncStream<SubscriptionEvent>
    let connection: NATSConnection

    public func makeAsyncIterator() -> Iterator { Iterator(events: events.makeAsyncIterator(), connection: connection) }

    public struct Iterator: AsyncIteratorProtocol {
        var events: AsyncStream<SubscriptionEvent>.Iterator
        let connection: NATSConnection

        public mutating func next() async throws(NATSError) -> NATSMessage? { try await next(isolation: #isolation) }

        public mutating func next(isolation actor: isolated (any Actor)?) async throws(NATSError) -> NATSMessage? {
            while true {
                switch try await events.nextEvent(isolation: actor) {
                case .message(let message): return message
                case .failed(let error): throw error
                case .reconnected, .tick: continue
                }
            }
        }
    }
}

extension AsyncStream<SubscriptionEvent>.Iterator {
    /// Returns the next event. If the stream ends without `failed`, either the task is cancelled, or the buffer had no space for `failed`.
    mutating func nextEvent(isolation actor: isolated (any Actor)?) async throws(NATSError) -> SubscriptionEvent {
        if let event = await next(isolation: actor) { return event }
        throw Task.isCancelled ? .taskCancelled : NATSError(.slowReader, "messages arrived faster than they were read")
    }
}
