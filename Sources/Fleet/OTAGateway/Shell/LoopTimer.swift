internal import OTAFleet

/// The clock and the timer of a loop. The timer wakes the loop at the earliest deadline. It can also wake the loop too early, because a
/// started timer is not cancelled. So the loop checks its deadlines each time it wakes (docs/decisions/0017-deadline-timers.md).
struct LoopTimer<C: Clock>: Sendable where C.Duration == Duration {
    private let clock: C
    private let start: C.Instant
    private let wall: @Sendable () -> Timestamp?
    /// The time of the earliest pending timer; nil if no timer is pending.
    private var armed: Duration?

    init(_ clock: C, wall: @escaping @Sendable () -> Timestamp?) {
        self.clock = clock
        self.wall = wall
        start = clock.now
    }

    /// The time since the start of the loop, and the wall clock.
    var moment: Moment { Moment(start.duration(to: clock.now), wall: wall()) }

    /// Starts a timer for the deadline, but not if a pending timer fires at the same time or earlier. The timer calls `wake` with the
    /// deadline.
    mutating func arm(
        _ deadline: Duration?, in group: inout DiscardingTaskGroup, wake: @escaping @Sendable (Duration) -> Void
    ) {
        guard let deadline else { return }
        if let armed, armed <= deadline { return }
        armed = deadline
        let (clock, instant) = (clock, start.advanced(by: deadline))
        group.addTask {
            do {
                try await clock.sleep(until: instant, tolerance: nil)
                wake(deadline)
            } catch {
                // The task was cancelled because the loop has ended.
            }
        }
    }

    /// Records that the timer for this time has ended.
    mutating func fired(_ time: Duration) { if armed == time { armed = nil } }
}
