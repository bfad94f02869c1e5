package import OTAProfile

/// One process of the tool in a world: what it is asked to do, and what becomes of it.
package struct Client: Sendable {
    package struct ClockJump: Sendable {
        package let event: Int
        package let by: Duration
    }

    package var task: ProfileTask
    /// The number of the event before which it is killed; nil: it lives.
    package var death: Int?
    /// Its clock jumps ahead before the event of this number, as after a laptop's sleep.
    package var clockJump: ClockJump?
    /// How long nothing happens after it.
    package var pause: Duration

    package init(
        _ task: ProfileTask, death: Int? = nil, clockJump: ClockJump? = nil, pause: Duration = .zero
    ) {
        self.task = task
        self.death = death
        self.clockJump = clockJump
        self.pause = pause
    }
}
