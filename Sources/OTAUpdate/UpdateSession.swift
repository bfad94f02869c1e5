/// One conversation with a device, as a value: it is told what happened and says what to do next.
///
/// It owns no clock, socket, file, task or lock; time is handed in as the `Duration` since the session started, and
/// randomness as a seed given to its initializer. Hence the same value runs in real and in virtual time, and a test can
/// cut the link, the power or the process after every event.
public protocol UpdateSession: Sendable {
    /// The earliest instant at which it wants to be called, whatever happens; nil: it can wait for ever.
    var deadline: Duration? { get }

    /// Tells it what happened at `now` (never earlier than the call before) and returns what to do, in order.
    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction]
}
