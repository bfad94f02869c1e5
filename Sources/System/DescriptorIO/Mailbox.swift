/// The mailbox of a loop, and the timer that wakes the loop at its earliest deadline.
///
/// Child tasks post messages, and the loop handles them one after the other. So only the loop has mutable state.
package struct Mailbox<Message: Sendable, C: Clock>: Sendable where C.Duration == Duration {
    package let messages: AsyncStream<Message>
    package let post: AsyncStream<Message>.Continuation
    package let start: C.Instant
    private let clock: C
    private let wake: Message
    /// The time at which the timer that was started last wakes the loop.
    private var armed: Duration?

    /// A timer is late if it ends more than this time after its deadline.
    private static var lateness: Duration { .milliseconds(250) }
    /// The time in which waiting messages arrive after the process was stopped.
    private static var receiptTime: Duration { .milliseconds(100) }

    /// - Parameter wake: the message of the timer.
    package init(_ clock: C, wake: Message) {
        (messages, post) = AsyncStream.makeStream()
        (self.clock, self.wake, start) = (clock, wake, clock.now)
    }

    /// The time since the start of the loop.
    package var now: Duration { start.duration(to: clock.now) }

    /// Starts a timer for a deadline. Does nothing if a running timer ends at the deadline or earlier.
    ///
    /// A running timer is not cancelled. So the message `wake` can come before the deadline, and the loop checks its deadlines each time.
    ///
    /// A late timer shows that the process did not run for some time, for example because the computer slept. Other messages may then wait
    /// for their receipt. So the timer waits a short time longer: the loop must handle these messages before its deadline.
    package mutating func arm(_ deadline: Duration?, in group: inout DiscardingTaskGroup) {
        guard let deadline else { return }
        // If the deadline is already late, a running timer gives the waiting messages their time.
        let due = now - deadline > Self.lateness ? now + Self.receiptTime : deadline
        guard armed.map({ due < $0 || $0 <= now }) ?? true else { return }
        armed = due
        let (clock, instant, post, wake) = (clock, start.advanced(by: deadline), post, wake)
        group.addTask {
            do {
                try await clock.sleep(until: instant, tolerance: nil)
                if instant.duration(to: clock.now) > Self.lateness { try await clock.sleep(for: Self.receiptTime) }
                post.yield(wake)
            } catch {
                // The task was cancelled because the loop has ended.
            }
        }
    }
}
