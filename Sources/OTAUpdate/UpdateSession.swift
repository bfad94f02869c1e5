/// The logic of one update, as a value without input or output: it gets events and returns actions.
///
/// A session has no clock, socket, file, task or lock. Its caller passes the time as the `Duration` since the start, and a random
/// seed to the initializer. So the same code runs in real and in virtual time. A test can cut the link, the power or the process
/// after each event.
public protocol UpdateSession: Sendable {
    /// The time at which the session needs an event, as the duration since its start; nil: no time limit.
    var deadline: Duration? { get }

    /// Handles an event.
    ///
    /// - Parameter now: the time since the start of the session; never earlier than in the previous call.
    /// - Returns: the actions to perform, in order.
    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction]
}
