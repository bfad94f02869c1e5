package import OTAEngine
package import OTASimulator

/// One process of the tool in a world: its task and its faults.
package struct Client<Task: Sendable>: Sendable {
    package var task: Task
    /// The number of the event before which the process is killed, or nil.
    package var death: Int?
    package var clockJump: ClockJump?
    /// The device loses power at this flash operation, counted from this client's start.
    package var powerCut: PowerCut?
    /// The time between its end and the next client.
    package var pause: Duration
    /// Encodes the image of its push; nil: the image is sent plain.
    package var encoder: UpdateRunner<VirtualTime>.Encoder?

    package init(
        _ task: Task, death: Int? = nil, clockJump: ClockJump? = nil, powerCut: PowerCut? = nil,
        pause: Duration = .zero, encoder: UpdateRunner<VirtualTime>.Encoder? = nil
    ) {
        self.task = task
        self.death = death
        self.clockJump = clockJump
        self.powerCut = powerCut
        self.pause = pause
        self.encoder = encoder
    }
}

/// A clock jump before the event with this number, as after a laptop's sleep.
package struct ClockJump: Sendable {
    package let event: Int
    package let by: Duration
}
