/// The calls that wait for an answer, by serial number.
struct PendingCalls {
    typealias Answer = Result<[DBusValue], DBusError>

    private struct Pending {
        /// Of the task that waits.
        var ticket: UInt64
        var deadline: ContinuousClock.Instant?
        var finish: (Answer) -> Void
    }

    private var pending: [UInt32: Pending] = [:]
    /// No deadline is earlier. It may be one of a call that was answered: whoever wakes for it looks again.
    private(set) var deadline: ContinuousClock.Instant?
    /// When answers were last looked for.
    private var lastLook = ContinuousClock.now

    mutating func add(_ serial: UInt32, ticket: UInt64, timeout: Duration?, finish: @escaping (Answer) -> Void) {
        let due = timeout.map { ContinuousClock.now.advanced(by: $0) }
        pending[serial] = Pending(ticket: ticket, deadline: due, finish: finish)
        if let due, deadline.map({ due < $0 }) ?? true { deadline = due }
    }

    /// Nothing happens when nobody waits for it: it was cancelled, or its time is over.
    mutating func finish(_ serial: UInt32, _ answer: @autoclosure () -> Answer) {
        if let call = pending.removeValue(forKey: serial) { call.finish(answer()) }
    }

    mutating func cancel(ticket: UInt64) {
        for serial in pending.filter({ $0.value.ticket == ticket }).keys.sorted() {
            finish(serial, .failure(.taskCancelled))
        }
    }

    /// Gives up the calls whose time was over before the last look for answers. After a while in which this machine slept or the
    /// thread had no processor, an answer may lie there that came in time.
    mutating func expire() {
        let look = lastLook
        lastLook = .now
        guard let earliest = deadline, earliest <= look else { return }
        let over = pending.filter { $0.value.deadline.map { $0 <= look } ?? false }
        for serial in over.keys.sorted() {
            finish(serial, .failure(DBusError(.timedOut, "no answer came in time")))
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
