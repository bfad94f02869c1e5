import DescriptorIO
public import Logging

/// A connection of its own to a bus, on a thread of its own.
///
/// Everything that waits ends with an error when the connection ends: `disconnected`. A stream or a socket made from it keeps
/// it alive; it is closed when the last reference goes, or by `close`.
public actor DBusConnection {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let logger: Logger
    /// Nil before `start` and once the connection has ended.
    private var wire: Wire?
    private var end = DBusError(.disconnected, "the connection was not opened")
    /// This connection's own name on the bus, such as `:1.42`.
    public private(set) var uniqueName = ""

    var calls = PendingCalls()
    var subscriptions = Subscriptions()
    /// Of the names that are tracked; nil within: nobody.
    var owners: [String: String?] = [:]
    var followers: [UInt64: ObjectFollower] = [:]
    var objects = ObjectTree()
    /// The methods that run.
    var handlers: [UInt64: Task<Void, Never>] = [:]
    private var lastTicket: UInt64 = 0

    private init(logger: Logger) throws(DBusError) {
        executor = try DBusExecutor()
        self.logger = logger
    }

    isolated deinit {
        // Nobody waits for an answer, or there would be a reference; the wire is closed here, on its own thread.
        wire = nil
    }

    /// Throws `connectionFailed`, `timedOut` and `cancelled`, and `remote` when the bus refuses us.
    public static func open(
        _ bus: DBusBus = .system, timeout: Duration = .seconds(10), logger: Logger = Logger(label: "dbus")
    ) async throws(DBusError) -> DBusConnection {
        let connection = try DBusConnection(logger: logger)
        do throws(DBusError) { try await connection.start(bus.address(), timeout) } catch {
            await connection.close()
            throw error
        }
        return connection
    }

    /// Opens a connection, and closes it after `body`.
    public static func withConnection<Result: Sendable>(
        _ bus: DBusBus = .system, logger: Logger = Logger(label: "dbus"),
        _ body: (DBusConnection) async throws -> Result
    ) async throws -> Result {
        let connection = try await open(bus, logger: logger)
        do {
            let result = try await body(connection)
            await connection.close()
            return result
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Ends every call, stream and handler with `disconnected`. What libdbus has not yet written is lost: await the answer to
    /// the last call first. May be called more than once.
    public func close() { end(with: DBusError(.disconnected, "the connection was closed")) }

    private func start(_ address: String, _ timeout: Duration) async throws(DBusError) {
        let wire = try Wire(address: address)
        wire.onTurn = { [weak self] in self?.assumeIsolated { $0.turn() } ?? false }
        executor.loop.client = wire
        self.wire = wire
        let answer: [DBusValue]
        do throws(DBusError) { answer = try await request(.bus("Hello"), timeout: timeout) } catch {
            // Before the name is given, a bus that closes the connection is one that does not let us in.
            throw error.code == .disconnected
                ? DBusError(.connectionFailed, "\(address): the bus lets us not in") : error
        }
        uniqueName = try answer.require(0, \.string)
        wire.setUniqueName(uniqueName)
        logger.debug("connected", metadata: ["address": "\(address)", "name": "\(uniqueName)"])
    }

    func end(with error: DBusError) {
        guard wire != nil else { return }
        logger.debug("ended", metadata: ["name": "\(uniqueName)", "reason": "\(error.message)"])
        wire = nil
        end = error
        calls.failAll(error)
        subscriptions.endAll(error)
        followers = [:]
        // Their handlers may hold this connection.
        objects.removeAll()
        for task in handlers.values { task.cancel() }
        handlers = [:]
    }

    /// Names a call or a subscription of this connection.
    func newTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    // MARK: - Messages

    func checkConnected() throws(DBusError) {
        if wire == nil { throw end }
    }

    /// Queues a message. Its serial number. Throws `disconnected`.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        guard let wire else { throw end }
        return try wire.send(message)
    }

    /// No more than this in one round, so that a flood of signals does not keep calls from being made.
    private static let messagesPerRound = 64

    private func turn() -> Bool {
        defer {
            calls.expire()
            wire?.deadline = calls.deadline
        }
        for _ in 0..<Self.messagesPerRound {
            guard let message = wire?.receive() else { return false }
            received(message)
        }
        return true
    }

    /// Runs `body` here, after what is queued already.
    nonisolated func post(_ body: @escaping @Sendable (isolated DBusConnection) -> Void) {
        executor.loop.perform { self.assumeIsolated(body) }
    }
}
