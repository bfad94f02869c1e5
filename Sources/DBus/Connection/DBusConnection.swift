import CDBus
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
    var objects = ExportedObjects()
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

extension DBusConnection {
    private func received(_ message: Message) {
        switch message.kind {
        case DBUS_MESSAGE_TYPE_METHOD_RETURN:
            calls.finish(message.replySerial, answer(in: message))
        case DBUS_MESSAGE_TYPE_ERROR:
            calls.finish(message.replySerial, .failure(refusal(in: message)))
        case DBUS_MESSAGE_TYPE_SIGNAL:
            receivedSignal(message)
        case DBUS_MESSAGE_TYPE_METHOD_CALL:
            receivedCall(message)
        default:
            // Unknown message types must be ignored (specification, "Message Types").
            break
        }
    }

    private func answer(in message: Message) -> PendingCalls.CallResult {
        do throws(DBusError) { return .success(try MessageReader.arguments(of: message)) } catch {
            return .failure(error)
        }
    }

    private func refusal(in message: Message) -> DBusError {
        do throws(DBusError) {
            return .remote(message.errorName, try MessageReader.arguments(of: message).first?.string ?? "")
        } catch { return error }
    }

    private func receivedSignal(_ message: Message) {
        let arguments: [DBusValue]
        do throws(DBusError) { arguments = try MessageReader.arguments(of: message) } catch {
            logger.debug("a signal was dropped", metadata: ["reason": "\(error.message)"])
            return
        }
        let signal = DBusSignal(
            sender: message.sender, path: message.path, interface: message.interface, member: message.member,
            arguments: arguments)
        // Only libdbus itself can send this signal: it refuses messages with this interface from the bus.
        if signal.interface == Standard.local, signal.member == "Disconnected" {
            end(with: DBusError(.disconnected, "the bus closed the connection"))
            return
        }
        if let change = NameOwnerChange(signal), owners.keys.contains(change.name) {
            owners[change.name] = .some(change.newOwner)
        }
        subscriptions.deliver(signal) { owners[$0] ?? nil }
    }
}

/// The thread of a connection, as an executor.
///
/// An actor that uses the same executor calls its connection and its packet sockets without a thread switch:
///
///     actor Adapter {
///         nonisolated let executor: DBusExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }
///     }
///
/// The thread ends when the last reference to the executor is released. Therefore such an actor must hold the executor itself, not
/// only its `unownedExecutor`. Code on the thread must not block.
public final class DBusExecutor: Sendable {
    private let thread: LoopThread
    var loop: EventLoop { thread.loop }

    init() throws(DBusError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw DBusError(error) }
    }

    public var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }
}
