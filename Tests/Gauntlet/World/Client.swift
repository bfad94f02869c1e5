package import OTASimulator

/// One process of the tool in a world: what it is asked to do, and what becomes of it.
package struct Client<Task: Sendable>: Sendable {
    package var task: Task
    /// The number of the event before which it is killed; nil: it lives.
    package var death: Int?
    package var clockJump: ClockJump?
    /// The device loses power at this flash operation, counted from this client's start.
    package var powerCut: PowerCut?
    /// How long nothing happens after it.
    package var pause: Duration

    package init(
        _ task: Task, death: Int? = nil, clockJump: ClockJump? = nil, powerCut: PowerCut? = nil, pause: Duration = .zero
    ) {
        self.task = task
        self.death = death
        self.clockJump = clockJump
        self.powerCut = powerCut
        self.pause = pause
    }
}

/// A clock jumps ahead before the event of this number, as after a laptop's sleep.
package struct ClockJump: Sendable {
    package let event: Int
    package let by: Duration
}
