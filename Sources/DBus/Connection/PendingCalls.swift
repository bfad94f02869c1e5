/// The calls that wait for a reply, by serial number.
struct PendingCalls {
    typealias Answer = Result<[DBusValue], DBusError>

    private struct Pending {
        /// The ticket of the waiting task.
        var ticket: UInt64
        var deadline: ContinuousClock.Instant?
        var finish: (Answer) -> Void
    }

    private var pending: [UInt32: Pending] = [:]
    /// A lower bound of all deadlines. It may belong to a call that already has its reply; the thread then wakes up and
    /// checks again.
    private(set) var deadline: ContinuousClock.Instant?
    /// The time of the last check for replies.
    private var lastLook = ContinuousClock.now

    mutating func add(_ serial: UInt32, ticket: UInt64, timeout: Duration?, finish: @escaping (Answer) -> Void) {
        let due = timeout.map { ContinuousClock.now.advanced(by: $0) }
        pending[serial] = Pending(ticket: ticket, deadline: due, finish: finish)
        if let due, deadline.map({ due < $0 }) ?? true { deadline = due }
    }

    /// Finishes a call. Does nothing if the call was cancelled or timed out.
    mutating func finish(_ serial: UInt32, _ answer: @autoclosure () -> Answer) {
        if let call = pending.removeValue(forKey: serial) { call.finish(answer()) }
    }

    mutating func cancel(ticket: UInt64) {
        for serial in pending.filter({ $0.value.ticket == ticket }).keys.sorted() {
            finish(serial, .failure(.taskCancelled))
        }
    }

    /// Fails the calls whose deadline was before the last check for replies. If the machine slept or the thread was not
    /// scheduled for some time, a reply that arrived in time may still be unread.
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
