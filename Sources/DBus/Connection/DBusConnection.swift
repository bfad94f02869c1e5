import CDBus
import DescriptorIO
public import Logging

/// A private connection to a bus. It has its own thread.
///
/// When the connection ends, every waiting call and stream ends with `disconnected`, and the running method handlers are
/// cancelled. `close` closes the connection. The release of the last reference also closes it. Each stream of the connection
/// holds a reference.
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
        // At this point no task waits for a reply, because a waiting task holds a reference to this actor. The deinitializer
        // is isolated, so that the wire is closed on its own thread.
        wire = nil
    }

    /// Connects to a bus. Throws `connectionFailed`, `timedOut`, `cancelled`, `resourcesExhausted`, `invalidArguments` for an
    /// address with a NUL character, and `remote` if the bus replies to `Hello` with an error.
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

    /// Closes the connection. Pending calls and streams end with `disconnected`, and running method handlers are cancelled.
    /// Messages that libdbus has not written yet are lost. To avoid this, wait for the reply to the last call before you call
    /// `close`. A second call has no effect.
    public func close() { end(with: DBusError(.disconnected, "the connection was closed")) }

    private func start(_ address: String, _ timeout: Duration) async throws(DBusError) {
        let wire = try Wire(address: address)
        wire.onTurn = { [weak self] in self?.assumeIsolated { $0.turn() } ?? false }
        executor.loop.client = wire
        self.wire = wire
        let answer: [DBusValue]
        do throws(DBusError) { answer = try await request(.bus("Hello"), timeout: timeout) } catch {
            // If the bus closes the connection before it replies to `Hello`, the bus has refused the connection.
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
        // Release the method handlers, because they may hold references to this connection.
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

    /// Queues a message. Returns its serial number. Throws `disconnected` and `resourcesExhausted`.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        guard let wire else { throw end }
        return try wire.send(message)
    }

    /// The maximum number of received messages that are processed in one round of the event loop. The limit ensures that calls
    /// can be sent during a flood of signals.
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
        // This signal reports the end of the connection. Only libdbus itself creates it: libdbus rejects received messages
        // with this interface.
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

/// An executor that runs actors on the thread of a connection.
///
/// An actor that uses the same executor calls its connection and its packet sockets without a thread switch:
///
///     actor Adapter {
///         nonisolated let executor: DBusExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }
///     }
///
/// The thread ends when the last reference to the executor is released. Therefore the actor must hold the executor itself, not
/// only its `unownedExecutor`. Code on the thread must not block.
public final class DBusExecutor: Sendable {
    private let thread: LoopThread
    var loop: EventLoop { thread.loop }

    init() throws(DBusError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw DBusError(error) }
    }

    public var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }
}
