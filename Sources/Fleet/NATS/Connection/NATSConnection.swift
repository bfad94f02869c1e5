import CNATS
import DescriptorIO

/// Owns a connection of libnats, and one subscription for the replies to all requests.
///
/// Except in callbacks, all calls to libnats run on the thread of this connection, because they can block for seconds. The library holds
/// its lock while it connects and while it writes to a socket. `request` only adds its message to the thread's queue. Therefore the timeout
/// of a request also works while the thread is blocked.
final class NATSConnection: Sendable {
    /// The objects of libnats. Only the connection's thread uses them.
    private final class Library: @unchecked Sendable {
        var connection: OpaquePointer?
        var inbox: OpaquePointer?
        var subscriptions: [UInt: OpaquePointer] = [:]
    }

    private let thread: LoopThread
    private let library = Library()
    private let replies: PendingReplies
    private let subscriptions: Subscriptions
    let state: StateFeed
    /// The prefix of the subjects for replies. The subject of a reply is this prefix, followed by the request's token.
    private let inbox: String
    private let receivers: [UInt]
    /// The number of the user's file in `LibraryCredentials`; nil: no user.
    private let credentials: UInt?
    /// True after the first login.
    private let isOpen: Guarded<Bool>
    /// Ends the connections to a server that does not answer a login.
    private let watch: Task<Void, Never>

    private init(_ options: NATSOptions) throws(NATSError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch {
            throw NATSError(
                .resourcesExhausted, "no thread for a connection to a NATS server", cause: error.description)
        }
        let (replies, subscriptions, state) = (PendingReplies(), Subscriptions(), StateFeed())
        let inbox = "\(options.inboxPrefix).\(Self.randomToken())."
        (self.replies, self.subscriptions, self.state, self.inbox) = (replies, subscriptions, state, inbox)
        receivers = [
            LibraryEvents.add { Self.received($0, replies, subscriptions, state) },
            LibraryEvents.add { Self.receivedReply($0, inbox, replies) },
        ]
        credentials = options.credentials.map(LibraryCredentials.add)
        let isOpen = Guarded(false)
        self.isOpen = isOpen
        watch = Task {
            var silent = SilentConnections(options)
            while (try? await Task.sleep(for: silent.period, clock: .continuous)) != nil {
                if !isOpen.with({ $0 }) || state.current == .reconnecting { silent.end() }
            }
        }
    }

    deinit {
        for receiver in receivers { LibraryEvents.remove(receiver) }
        if let credentials { LibraryCredentials.remove(credentials) }
        // The thread runs all queued work before it ends, so `destroy` always runs. It waits for a login that is under way.
        let (library, watch) = (library, watch)
        thread.loop.perform {
            Self.destroy(library)
            watch.cancel()
        }
    }

    /// Connects to the first server that can be reached.
    static func open(_ options: NATSOptions) async throws(NATSError) -> NATSConnection {
        let connection = try NATSConnection(options)
        let error = await connection.thread.run { connection.connect(options) }
        if let error { throw error }
        return connection
    }

    /// Ends the connection, and waits until all calls to libnats have ended. Waiting requests and open subscriptions throw `closed`.
    func close() async {
        end(.closed)
        let library = library
        await thread.run { Self.destroy(library) }
    }

    private func end(_ error: NATSError) {
        state.change(to: .closed(error))
        replies.endAll(error)
        subscriptions.endAll(error)
    }

    /// Returns 22 random letters and digits.
    static func randomToken() -> String {
        let characters = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
        return String((0..<22).map { _ in characters[Int.random(in: characters.indices)] })
    }

    // MARK: - Messages

    /// Sends a message. Throws an error if the library did not accept the message, or if the library could not send all of its bytes.
    func publish(
        _ subject: String, headers: NATSHeaders, payload: [UInt8]
    ) async throws(NATSError) {
        try Self.check(subject, headers)
        let error = await thread.run { self.send(subject, reply: nil, headers, payload) }
        if let error { throw error }
    }

    /// Sends a request and waits for the reply.
    func request(
        _ subject: String, headers: NATSHeaders, payload: [UInt8], timeout: Duration
    ) async throws(NATSError) -> NATSMessage {
        try Self.check(subject, headers)
        let token = replies.newToken()
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                replies.add(token, subject: subject, timeout: timeout, continuation)
                // If the task was cancelled before `add`, `onCancel` did not find the request in the table.
                guard !Task.isCancelled else { return replies.end(token, .failure(.taskCancelled)) }
                thread.loop.perform {
                    // The request can end while this thread is blocked, for example because of its timeout. Do not send such a request any
                    // more.
                    guard self.replies.contains(token) else { return }
                    if let error = self.send(subject, reply: "\(self.inbox)\(token)", headers, payload) {
                        self.replies.end(token, .failure(error))
                    }
                }
            }
        } onCancel: {
            replies.end(token, .failure(.taskCancelled))
        }
        let reply = try outcome.get()
        if reply.status == 503, reply.payload.isEmpty {
            throw NATSError(.noResponders, "no program answers requests to \(subject)")
        }
        return reply
    }

    /// Subscribes to a subject. The events end when the returned stream is released.
    func subscribe(_ subject: String, limit: Int) async throws(NATSError) -> AsyncStream<SubscriptionEvent> {
        guard Subject.isSubject(subject) else { throw Self.invalidSubject(subject) }
        let (stream, feed) = AsyncStream.makeStream(
            of: SubscriptionEvent.self, bufferingPolicy: .bufferingOldest(limit))
        let subscriptions = subscriptions
        let number = LibraryEvents.add { subscriptions.post($0, to: feed) }
        subscriptions.add(number, subject, feed)
        feed.onTermination = { [weak self, subscriptions] _ in
            LibraryEvents.remove(number)
            subscriptions.remove(number)
            self?.unsubscribe(number)
        }
        let error = await thread.run { self.addSubscription(number, subject) }
        if let error {
            feed.finish()
            throw error
        }
        return stream
    }

    /// Posts a tick to the subscriptions to `subject`.
    func tick(_ subject: String) { subscriptions.tick(subject) }

    private static func check(_ subject: String, _ headers: NATSHeaders) throws(NATSError) {
        guard Subject.isLiteral(subject) else { throw invalidSubject(subject) }
        guard headers.areWritable else {
            throw NATSError(.invalidArguments, "a header has a line break or another control character")
        }
    }

    private static func invalidSubject(_ subject: String) -> NATSError {
        NATSError(.invalidArguments, "'\(subject)' is not a subject")
    }

    // MARK: - Calls to libnats, on the connection's thread

    private func connect(_ options: NATSOptions) -> NATSError? {
        do throws(NATSError) {
            let settings = try LibraryOptions(options, receiver: receivers[0], credentials: credentials)
            let status = connect(settings)
            if let error = NATSError.last(status, "cannot connect to \(options.addresses)") {
                throw Self.explained(error, status)
            }
            isOpen.with { $0 = true }
            try subscribeToReplies(options)
            return nil
        } catch {
            Self.destroy(library)
            return error
        }
    }

    /// Connects. If the signature of a server's nonce is not usable, the method connects again, because another nonce has another signature.
    private func connect(_ settings: LibraryOptions) -> natsStatus {
        var status = NATS_OK
        // The limit is for a server that always sends the same nonce.
        for _ in 0..<10 {
            status = natsConnection_Connect(&library.connection, settings.pointer)
            guard let credentials, LibraryCredentials.takeUnusableSignature(credentials), status != NATS_OK else {
                break
            }
        }
        return status
    }

    /// Returns the error of a failed attempt to connect, with a code that shows whether another attempt can succeed.
    private static func explained(_ error: NATSError, _ status: natsStatus) -> NATSError {
        var error = error
        let text = error.cause?.lowercased() ?? ""
        switch status {
        // The server waits only 2 s for a login, and has a maximum number of connections.
        case NATS_ERR where text.contains("authentication timeout") || text.contains("connections exceeded"):
            error.code = .connectionFailed
        case NATS_PROTOCOL_ERROR where text.contains("expected 'pong'"):
            error.code = .connectionFailed
            error.cause = "the server ended the connection during the login"
            // With TLS 1.3, the server refuses a missing certificate only after the handshake of the client.
            if error.message.contains("tls://") {
                error.cause? += "; if its tls block has 'verify: true', remove this: otaflash has no client certificate"
            }
        // The server ended the connection during the TLS handshake. It also waits only 2 s for the handshake. A server that refuses the
        // handshake sends an alert. OpenSSL has no text for the error of a socket, so libnats reports "(null)".
        case NATS_SSL_ERROR where text.contains("unexpected eof") || text.contains("(null)"):
            error.code = .connectionFailed
        case NATS_CONNECTION_CLOSED, NATS_PROTOCOL_ERROR: error.code = .noServerInformation
        default: break
        }
        return error
    }

    private func subscribeToReplies(_ options: NATSOptions) throws(NATSError) {
        let connection = library.connection
        let what = "cannot subscribe to the replies at \(inbox)*"
        var status = natsConnection_Subscribe(
            &library.inbox, connection, "\(inbox)*", LibraryEvents.onMessage, LibraryEvents.context(receivers[1]))
        if status == NATS_OK {
            status = natsConnection_FlushTimeout(connection, LibraryOptions.milliseconds(options.connectTimeout))
        }
        if let error = NATSError.last(status, what) {
            throw NATSError(.connectionFailed, error.message, cause: error.cause)
        }
        // The server reports a refused subscription before it answers the flush.
        var text: UnsafePointer<CChar>?
        if natsConnection_GetLastError(connection, &text) == NATS_NOT_PERMITTED {
            throw NATSError(.permissionDenied, what, cause: text.map { String(cString: $0) })
        }
    }

    /// Passes a message to the library. Returns nil if the library sent the message, or if the message is in the library's buffer.
    private func send(_ subject: String, reply: String?, _ headers: NATSHeaders, _ payload: [UInt8]) -> NATSError? {
        if let error = connectionError() { return error }
        let status = NATSMessage.withLibraryMessage(subject: subject, reply: reply, headers: headers, payload: payload)
        {
            natsConnection_PublishMsg(library.connection, $0)
        }
        switch status {
        case NATS_OK: return nil
        case NATS_IO_ERROR, NATS_TIMEOUT, NATS_STALE_CONNECTION: return .disconnected
        default: return NATSError.last(status, "the message to \(subject) was not sent")
        }
    }

    private func addSubscription(_ number: UInt, _ subject: String) -> NATSError? {
        if case .closed(let error) = state.current { return error }
        guard let connection = library.connection else { return .closed }
        let status = natsConnection_Subscribe(
            &library.subscriptions[number], connection, subject, LibraryEvents.onMessage, LibraryEvents.context(number))
        return NATSError.last(status, "cannot subscribe to \(subject)")
    }

    private func unsubscribe(_ number: UInt) {
        let library = library
        thread.loop.perform {
            guard let subscription = library.subscriptions.removeValue(forKey: number) else { return }
            natsSubscription_Unsubscribe(subscription)
            natsSubscription_Destroy(subscription)
        }
    }

    private func connectionError() -> NATSError? {
        if case .closed(let error) = state.current { return error }
        guard let connection = library.connection else { return .closed }
        // The library must not accept this message now and send it later. The reconnect buffer has 0 bytes for the same reason, but
        // `nats.h` documents 0 as the default of 8 MB. Therefore do not rely on the buffer alone.
        return natsConnection_IsReconnecting(connection) ? .notConnected : nil
    }

    private static func destroy(_ library: Library) {
        for subscription in library.subscriptions.values { natsSubscription_Destroy(subscription) }
        library.subscriptions = [:]
        natsSubscription_Destroy(library.inbox)
        library.inbox = nil
        natsConnection_Destroy(library.connection)
        library.connection = nil
    }

    // MARK: - Events of libnats, on a thread of the library

    private static func received(
        _ event: LibraryEvent, _ replies: PendingReplies, _ subscriptions: Subscriptions, _ state: StateFeed
    ) {
        switch event {
        case .message, .malformedMessage: break
        case .disconnected:
            state.change(to: .reconnecting)
            replies.endAll(.disconnected)
        case .reconnected:
            state.change(to: .connected)
            subscriptions.reconnected()
        case .closed(let text):
            let refused = text.lowercased().contains("authorization") || text.lowercased().contains("authentication")
            let error = NATSError(
                refused ? .authorizationFailed : .closed, "the NATS server ended the connection",
                cause: text.isEmpty ? nil : text)
            state.change(to: .closed(error))
            replies.endAll(error)
            subscriptions.endAll(error)
        case .failed(let status, let text):
            guard status == NATS_NOT_PERMITTED, let subject = refusedSubject(text) else { break }
            let error = NATSError(.permissionDenied, "the server does not permit the use of \(subject)", cause: text)
            replies.endAll(to: subject, error)
            subscriptions.endAll(to: subject, error)
        }
    }

    /// Returns the subject in a text such as `Permissions Violation for Publish to "a.b"`.
    static func refusedSubject(_ text: String) -> String? {
        let parts = text.split(separator: "\"", omittingEmptySubsequences: false)
        return parts.count >= 3 ? String(parts[1]) : nil
    }

    private static func receivedReply(_ event: LibraryEvent, _ inbox: String, _ replies: PendingReplies) {
        func token(_ subject: String) -> UInt64? {
            subject.hasPrefix(inbox) ? UInt64(subject.dropFirst(inbox.count)) : nil
        }
        switch event {
        case .message(let message):
            if let token = token(message.subject) { replies.end(token, .success(message)) }
        case .malformedMessage(let subject):
            if let token = token(subject) { replies.end(token, .failure(.malformed("header"))) }
        case .disconnected, .reconnected, .closed, .failed: break
        }
    }
}
