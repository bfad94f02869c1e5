import CDBus
import DescriptorIO
public import Logging

/// A connection to a D-Bus bus, on a separate thread.
///
/// The connection ends when `close` is called, when the bus closes the connection, or when the last reference to the connection
/// is released. Each stream holds a reference to its connection. When the connection ends, all waiting calls and streams throw
/// `disconnected`, and the running method handlers are cancelled.
public actor DBusConnection {
    public nonisolated let executor: DBusExecutor
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }

    let logger: Logger
    /// The libdbus connection; nil before `start` and after the end of the connection.
    private var wire: Wire?
    private var end = DBusError(.disconnected, "the connection was not opened")
    /// The unique name of this connection on the bus, such as `:1.42`.
    public private(set) var uniqueName = ""

    var calls = PendingCalls()
    var subscriptions = Subscriptions()
    /// The owner of each tracked bus name, as a unique name. `owners[name]` is nil if the name is not tracked. It is
    /// `.some(nil)` if the name is tracked, but has no owner.
    var owners: [String: String?] = [:]
    var followers: [UInt64: ObjectFollower] = [:]
    var objects = ExportedObjects()
    /// The tasks of the running method handlers.
    var handlers: [UInt64: Task<Void, Never>] = [:]
    private var lastTicket: UInt64 = 0

    private init(logger: Logger) throws(DBusError) {
        executor = try DBusExecutor()
        self.logger = logger
    }

    isolated deinit {
        // The deinitializer is isolated, because the libdbus connection must be closed on the connection's thread. No call is pending
        // here, because a task that waits for a reply holds a reference to this actor.
        wire = nil
    }

    /// Opens a connection to a bus.
    ///
    /// - Parameter timeout: the maximum time to wait for the bus's reply to `Hello`, the first call on a connection.
    ///
    /// - Throws: `connectionFailed`; `timedOut`; `cancelled`; `resourcesExhausted`; `invalidArguments` if the address
    ///   contains a NUL character; `remote` if the bus replies to `Hello` with an error.
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

    /// Opens a connection, runs `body` with the connection, and closes the connection. Throws the errors of `open` and
    /// of `body`.
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

    /// Closes the connection. Pending calls and streams throw `disconnected`, and the connection cancels its running
    /// method handlers. A second call of `close` has no effect.
    ///
    /// Messages that are not yet written to the socket are lost. To make sure that the bus has received all messages, make a call and
    /// wait for the reply before you call `close`.
    public func close() { end(with: DBusError(.disconnected, "the connection was closed")) }

    private func start(_ address: String, _ timeout: Duration) async throws(DBusError) {
        let wire = try Wire(address: address)
        wire.onTurn = { [weak self] in self?.assumeIsolated { $0.turn() } ?? false }
        executor.loop.client = wire
        self.wire = wire
        let answer: [DBusValue]
        do throws(DBusError) { answer = try await request(.bus("Hello"), timeout: timeout) } catch {
            // To refuse a connection, a bus closes the connection and does not reply to `Hello`.
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
        // Release the exported objects, because their method handlers may hold references to this connection.
        objects.removeAll()
        for task in handlers.values { task.cancel() }
        handlers = [:]
    }

    /// Returns a ticket: an unused number that identifies a batch of calls, a subscription, a follower or a running method handler.
    func newTicket() -> UInt64 {
        lastTicket += 1
        return lastTicket
    }

    // MARK: - Messages

    func checkConnected() throws(DBusError) {
        if wire == nil { throw end }
    }

    /// Queues a message and returns the serial number of the message. Throws `disconnected` and `resourcesExhausted`.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        guard let wire else { throw end }
        return try wire.send(message)
    }

    /// The maximum number of received messages that the connection processes in one round of the event loop. Queued work, such as a new
    /// call, runs between two rounds. Without this limit, a large number of signals could delay the queued work.
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

    /// Queues `body` and returns immediately. `body` runs on this actor after all work that is already queued.
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
            // The D-Bus specification ("Message Types") requires that a program ignores unknown message types.
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
        // libdbus itself creates this signal when the connection ends. Another program cannot send this signal, because libdbus rejects
        // received messages with this interface.
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

/// Runs actors on the thread of a connection.
///
/// If another actor uses the connection's executor, that actor can call the connection and its packet sockets without a
/// thread switch:
///
///     actor Adapter {
///         nonisolated let executor: DBusExecutor
///         nonisolated var unownedExecutor: UnownedSerialExecutor { executor.unownedExecutor }
///     }
///
/// The thread ends when the last reference to the executor is released. Therefore the actor must store the executor. `unownedExecutor`
/// does not keep the thread alive. Code on the thread must not block, because it would also block the connection.
public final class DBusExecutor: Sendable {
    private let thread: LoopThread
    var loop: EventLoop { thread.loop }

    init() throws(DBusError) {
        do throws(DescriptorError) { thread = try LoopThread() } catch { throw DBusError(error) }
    }

    public var unownedExecutor: UnownedSerialExecutor { thread.unownedExecutor }
}
