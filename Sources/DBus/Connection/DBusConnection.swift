import DescriptorIO
public import Logging

/// A private connection to a bus, on its own thread.
///
/// When the connection ends, every waiting call, stream and handler ends with `disconnected`. A stream or a socket of the
/// connection keeps it alive. It is closed by `close` or when the last reference is released.
public actor DBusConnection {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let logger: Logger
    /// The libdbus connection. Nil before `start` and after the connection has ended.
    private var wire: Wire?
    private var end = DBusError(.disconnected, "the connection was not opened")
    /// The unique name of this connection on the bus, such as `:1.42`.
    public private(set) var uniqueName = ""

    var calls = PendingCalls()
    var subscriptions = Subscriptions()
    /// The owners of the tracked names. An inner nil means that the name has no owner.
    var owners: [String: String?] = [:]
    var followers: [UInt64: ObjectFollower] = [:]
    var objects = ObjectTree()
    /// The running method handlers.
    var handlers: [UInt64: Task<Void, Never>] = [:]
    private var lastTicket: UInt64 = 0

    private init(logger: Logger) throws(DBusError) {
        executor = try DBusExecutor()
        self.logger = logger
    }

    isolated deinit {
        // No task waits for a reply, because it would hold a reference. The wire is closed here, on its own thread.
        wire = nil
    }

    /// Connects to a bus. Throws `connectionFailed`, `timedOut`, `cancelled`, and `remote` if the bus refuses the
    /// registration.
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

    /// Opens a connection, runs `body`, and closes the connection.
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

    /// Closes the connection. Every call, stream and handler ends with `disconnected`. Messages that libdbus has not
    /// written yet are lost; to avoid this, await the reply to the last call first. May be called more than once.
    public func close() { end(with: DBusError(.disconnected, "the connection was closed")) }

    private func start(_ address: String, _ timeout: Duration) async throws(DBusError) {
        let wire = try Wire(address: address)
        wire.onTurn = { [weak self] in self?.assumeIsolated { $0.turn() } ?? false }
        executor.loop.client = wire
        self.wire = wire
        let answer: [DBusValue]
        do throws(DBusError) { answer = try await request(.bus("Hello"), timeout: timeout) } catch {
            // A bus that closes the connection before it assigns a name has refused the connection.
            throw error.code == .disconnected
                ? DBusError(.connectionFailed, "\(address): the D-Bus daemon refused the connection") : error
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
        // The handlers of the objects may hold a reference to this connection.
        objects.removeAll()
        for task in handlers.values { task.cancel() }
        handlers = [:]
    }

    /// Returns a new identifier for a call or a subscription of this connection.
    func newTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    // MARK: - Messages

    func checkConnected() throws(DBusError) {
        if wire == nil { throw end }
    }

    /// Queues a message. Returns its serial number. Throws `disconnected`.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        guard let wire else { throw end }
        return try wire.send(message)
    }

    /// The maximum number of messages per round. The limit ensures that calls can be sent during a flood of signals.
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

    /// Runs `body` on this actor, after all work that is already queued.
    nonisolated func post(_ body: @escaping @Sendable (isolated DBusConnection) -> Void) {
        executor.loop.perform { self.assumeIsolated(body) }
    }
}
