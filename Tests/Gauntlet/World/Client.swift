package import OTAProfile

/// One process of the tool in a world: what it is asked to do, and what becomes of it.
package struct Client: Sendable {
    package var task: ProfileTask
    /// The number of the event before which it is killed; nil: it lives.
    package var death: Int?
    /// Its clock jumps ahead before the event of this number, as after a laptop's sleep.
    package var clockJump: (event: Int, by: Duration)?
    /// How long nothing happens after it.
    package var pause: Duration

    package init(
        _ task: ProfileTask, death: Int? = nil, clockJump: (event: Int, by: Duration)? = nil, pause: Duration = .zero
    ) {
        self.task = task
        self.death = death
        self.clockJump = clockJump
        self.pause = pause
    }
}
