extension DBusConnection {
    /// Calls a method and waits for its answer: the values it returned.
    ///
    /// Throws `remote` with the name of the error that came, `timedOut` (nil waits for ever), `cancelled`, `disconnected`, and
    /// `invalidArguments` when nothing was sent. A call that was cancelled or timed out may have been carried out.
    public func call(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = [], timeout: Duration? = .seconds(25)
    ) async throws(DBusError) -> [DBusValue] {
        try await request(DBusMethodCall(destination, path, interface, member, arguments), timeout: timeout)
    }

    /// Sends the calls one after the other without waiting, then waits for all. Their answers, in the same order.
    public func call(
        _ calls: [DBusMethodCall], timeout: Duration? = .seconds(25)
    ) async -> [Result<[DBusValue], DBusError>] {
        await answers(to: calls, timeout: timeout) { _ in }
    }

    /// Sends a call that nobody answers; returns once it is queued. Throws `invalidArguments` and `disconnected`.
    public func callWithoutReply(
        _ destination: String, _ path: DBusObjectPath, _ interface: String, _ member: String,
        _ arguments: [DBusValue] = []
    ) throws(DBusError) {
        try send(withoutReply: DBusMethodCall(destination, path, interface, member, arguments))
    }

    func send(withoutReply call: DBusMethodCall) throws(DBusError) {
        _ = try send(.call(call, wantsReply: false))
    }

    /// `onAnswer` is called on this actor before any later message is looked at; the caller goes on some time after.
    @discardableResult
    func request(
        _ call: DBusMethodCall, timeout: Duration? = .seconds(25),
        onAnswer: @escaping (PendingCalls.Answer) -> Void = { _ in }
    ) async throws(DBusError) -> [DBusValue] {
        let answers = await answers(to: [call], timeout: timeout, onAnswer: onAnswer)
        return try answers[0].get()
    }

    private func answers(
        to batch: [DBusMethodCall], timeout: Duration?, onAnswer: @escaping (PendingCalls.Answer) -> Void
    ) async -> [PendingCalls.Answer] {
        guard !batch.isEmpty else { return [] }
        guard !Task.isCancelled else { return batch.map { _ in .failure(.taskCancelled) } }
        let ticket = newTicket()
        return await withTaskCancellationHandler {
            // Without it this closure would run off the actor, and the compiler would not say so.
            _ = self
            return await withCheckedContinuation { continuation in
                preconditionIsolated()
                let collector = AnswerCollector(count: batch.count) { continuation.resume(returning: $0) }
                for (index, call) in batch.enumerated() {
                    begin(call, ticket: ticket, timeout: timeout) { answer in
                        onAnswer(answer)
                        collector.add(answer, at: index)
                    }
                }
            }
        } onCancel: {
            post { $0.calls.cancel(ticket: ticket) }
        }
    }

    /// Sends a call. `finish` is called on this actor before any later message is looked at, and at once when nothing was sent.
    func begin(
        _ call: DBusMethodCall, ticket: UInt64, timeout: Duration?, finish: @escaping (PendingCalls.Answer) -> Void
    ) {
        do throws(DBusError) {
            calls.add(try send(.call(call)), ticket: ticket, timeout: timeout, finish: finish)
        } catch {
            finish(.failure(error))
        }
    }
}

/// Waits until the last answer is there.
private final class AnswerCollector {
    private var answers: [PendingCalls.Answer?]
    private var missing: Int
    private let onCompletion: ([PendingCalls.Answer]) -> Void

    init(count: Int, onCompletion: @escaping ([PendingCalls.Answer]) -> Void) {
        answers = Array(repeating: nil, count: count)
        missing = count
        self.onCompletion = onCompletion
    }

    func add(_ answer: PendingCalls.Answer, at index: Int) {
        answers[index] = answer
        missing -= 1
        if missing == 0 { onCompletion(answers.compactMap { $0 }) }
    }
}
