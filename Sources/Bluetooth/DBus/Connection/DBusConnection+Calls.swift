import Logging

extension DBusConnection {
    /// Calls a method, waits for the reply, and returns the values of the reply.
    ///
    /// If the call is cancelled or times out, the called program may still execute the method, because D-Bus cannot
    /// withdraw a call.
    ///
    /// - Parameter timeout: the maximum time to wait for the reply; nil for no limit. The default of 25 s is the
    ///   default of libdbus.
    ///
    /// - Throws: `remote` with the D-Bus name of the error reply; `timedOut`; `cancelled`; `disconnected`;
    ///   `invalidArguments` if a name or an argument is malformed; `resourcesExhausted`; `unexpectedValue` if the reply
    ///   is malformed.
    public func call(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(25)
    ) async throws(DBusError) -> [DBusValue] {
        try await request(DBusMethodCall(destination, path, interface, member, arguments), timeout: timeout)
    }

    /// Sends all calls, then waits for all replies. Returns the replies in the order of the calls. If a call fails, its result is an
    /// error, and the other calls continue.
    public func call(
        _ calls: [DBusMethodCall], timeout: Duration? = .seconds(25)
    ) async -> [Result<[DBusValue], DBusError>] {
        await answers(to: calls, timeout: timeout) { _ in }
    }

    /// Sends a method call and requests no reply. Throws `invalidArguments`, `disconnected` and `resourcesExhausted`.
    public func callWithoutReply(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = []
    ) throws(DBusError) {
        try send(withoutReply: DBusMethodCall(destination, path, interface, member, arguments))
    }

    func send(withoutReply call: DBusMethodCall) throws(DBusError) {
        _ = try send(.call(call, wantsReply: false))
    }

    /// Calls a method and returns the values of the reply.
    ///
    /// `onAnswer` runs on this actor before the connection processes the next message. This method may return later, after the
    /// connection has processed further messages. Therefore code that depends on the order of messages must be in `onAnswer`.
    @discardableResult
    func request(
        _ call: DBusMethodCall, timeout: Duration? = .seconds(25),
        onAnswer: @escaping (PendingCalls.CallResult) -> Void = { _ in }
    ) async throws(DBusError) -> [DBusValue] {
        let answers = await answers(to: [call], timeout: timeout, onAnswer: onAnswer)
        return try answers[0].get()
    }

    private func answers(
        to batch: [DBusMethodCall], timeout: Duration?, onAnswer: @escaping (PendingCalls.CallResult) -> Void
    ) async -> [PendingCalls.CallResult] {
        guard !batch.isEmpty else { return [] }
        guard !Task.isCancelled else { return batch.map { _ in .failure(.taskCancelled) } }
        let ticket = newTicket()
        return await withTaskCancellationHandler {
            // Without this line, the closure would not capture `self`, and then the closure would not run on this actor. The compiler
            // does not report this mistake.
            _ = self
            return await withCheckedContinuation { continuation in
                preconditionIsolated()
                let collector = AnswerCollector(count: batch.count) { continuation.resume(returning: $0) }
                for (index, call) in batch.enumerated() {
                    begin(call, ticket: ticket, timeout: timeout) { [logger] answer in
                        if case .failure(let error) = answer { Self.logFailure(of: call, error, logger) }
                        onAnswer(answer)
                        collector.add(answer, at: index)
                    }
                }
            }
        } onCancel: {
            post { $0.calls.cancel(ticket: ticket) }
        }
    }

    /// Logs a failed call without its arguments, because the arguments can contain secrets.
    private static func logFailure(of call: DBusMethodCall, _ error: DBusError, _ logger: Logger) {
        logger.debug(
            "a D-Bus call failed",
            metadata: [
                "call": "\(call.interface).\(call.member)", "object": "\(call.path)", "error": "\(error)",
            ])
    }

    /// Sends a call and later passes the call's result to `finish`. `finish` runs on this actor before the connection processes the
    /// next message. If the call cannot be sent, `finish` runs before `begin` returns.
    func begin(
        _ call: DBusMethodCall, ticket: UInt64, timeout: Duration?, finish: @escaping (PendingCalls.CallResult) -> Void
    ) {
        do throws(DBusError) {
            calls.add(try send(.call(call)), ticket: ticket, timeout: timeout, finish: finish)
        } catch {
            finish(.failure(error))
        }
    }
}

/// Collects the replies to a batch of calls, and calls `onCompletion` after the last reply.
private final class AnswerCollector {
    private var answers: [PendingCalls.CallResult?]
    private var missing: Int
    private let onCompletion: ([PendingCalls.CallResult]) -> Void

    init(count: Int, onCompletion: @escaping ([PendingCalls.CallResult]) -> Void) {
        answers = Array(repeating: nil, count: count)
        missing = count
        self.onCompletion = onCompletion
    }

    func add(_ answer: PendingCalls.CallResult, at index: Int) {
        answers[index] = answer
        missing -= 1
        if missing == 0 { onCompletion(answers.compactMap { $0 }) }
    }
}

/// A method call to another program or to the bus.
public struct DBusMethodCall: Sendable, Hashable {
    public var destination: String
    public var path: DBusObjectPath
    public var interface: String
    public var member: String
    public var arguments: [DBusValue]

    public init(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = []
    ) {
        self.destination = destination
        self.path = path
        self.interface = interface
        self.member = member
        self.arguments = arguments
    }

    /// Creates a method call to the bus itself.
    static func bus(_ member: String, _ arguments: [DBusValue] = []) -> DBusMethodCall {
        DBusMethodCall(Bus.name, Bus.path, Bus.name, member, arguments)
    }
}

/// The name and the object path of the bus itself (D-Bus specification, "Message Bus Messages").
enum Bus {
    static let name = "org.freedesktop.DBus"
    static let path: DBusObjectPath = "/org/freedesktop/DBus"
}

/// The calls that wait for a reply, by the serial number of the sent message.
struct PendingCalls {
    typealias CallResult = Result<[DBusValue], DBusError>

    private struct Pending {
        /// Identifies the batch that contains the call. A cancellation of the waiting task cancels all calls of the batch.
        var ticket: UInt64
        var deadline: ContinuousClock.Instant?
        var finish: (CallResult) -> Void
    }

    private var pending: [UInt32: Pending] = [:]
    /// The time of the next check for timeouts; nil if no check is necessary. No pending call has an earlier deadline. A reply does not
    /// change this time, so the check may find that no call has timed out.
    private(set) var deadline: ContinuousClock.Instant?
    /// The time when `expire` was last called.
    private var lastLook = ContinuousClock.now

    mutating func add(_ serial: UInt32, ticket: UInt64, timeout: Duration?, finish: @escaping (CallResult) -> Void) {
        let due = timeout.map { ContinuousClock.now.advanced(by: $0) }
        pending[serial] = Pending(ticket: ticket, deadline: due, finish: finish)
        if let due, deadline.map({ due < $0 }) ?? true { deadline = due }
    }

    /// Finishes the call with this serial number. Does nothing if the call has already been cancelled or has timed out.
    mutating func finish(_ serial: UInt32, _ answer: @autoclosure () -> CallResult) {
        if let call = pending.removeValue(forKey: serial) { call.finish(answer()) }
    }

    mutating func cancel(ticket: UInt64) {
        for serial in pending.filter({ $0.value.ticket == ticket }).keys.sorted() {
            finish(serial, .failure(.taskCancelled))
        }
    }

    /// Ends pending calls with the error `timedOut`. A call ends only if its deadline had already passed at the previous call of
    /// `expire`.
    ///
    /// Between two calls of `expire`, the thread processes the received replies. Therefore a reply that arrived before the deadline is
    /// accepted, even if the thread did not run for some time, for example because the computer was suspended.
    mutating func expire() {
        let look = lastLook
        lastLook = .now
        guard let earliest = deadline, earliest <= look else { return }
        let over = pending.filter { $0.value.deadline.map { $0 <= look } ?? false }
        for serial in over.keys.sorted() {
            finish(serial, .failure(DBusError(.timedOut, "no reply before the timeout")))
        }
        deadline = pending.values.compactMap(\.deadline).min()
    }

    mutating func failAll(_ error: DBusError) {
        let all = pending
        pending = [:]
        deadline = nil
        for serial in all.keys.sorted() { all[serial]?.finish(.failure(error)) }
    }
}
