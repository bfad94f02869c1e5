/// One process of the tool in a world: what it is asked to do, and what becomes of it.
package struct Client<Task: Sendable>: Sendable {
    package var task: Task
    /// The number of the event before which it is killed; nil: it lives.
    package var death: Int?
    package var clockJump: ClockJump?
    /// How long nothing happens after it.
    package var pause: Duration

    package init(_ task: Task, death: Int? = nil, clockJump: ClockJump? = nil, pause: Duration = .zero) {
        self.task = task
        self.death = death
        self.clockJump = clockJump
        self.pause = pause
    }
}

/// A clock jumps ahead before the event of this number, as after a laptop's sleep.
package struct ClockJump: Sendable {
    package let event: Int
    package let by: Duration
}
