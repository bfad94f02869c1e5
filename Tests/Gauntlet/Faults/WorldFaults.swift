import OTAUpdate

/// What goes wrong between a client and the link it is lent, beyond what the simulator's own `FaultPlan` breaks: the vices of
/// stacks and of devices. Probabilities are per event or per command.
package struct WorldFaults: Sendable {
    /// A notification comes twice.
    package var duplicate = 0.0
    /// A notification is kept, and comes after a later one.
    package var late = 0.0
    /// Nothing comes for so long: a sector is erased, a stack is busy. And how often.
    package var stall = (probability: 0.0, time: Duration.zero)
    /// A bit of a chunk flips on its way into the device's buffer.
    package var corruption = 0.0
    /// The device's buffers are full: so many chunks in a row are gone. And how often.
    package var overflow = (probability: 0.0, chunks: 0)
    /// The device lies in a position: about its sequence, offset or CRC.
    package var lie = 0.0
    /// An answer comes under a tag from before.
    package var staleTag = 0.0
    /// Bytes that are nothing.
    package var garbage = 0.0
    /// From this event on the device says nothing, on this connection (counted from 1) alone.
    package var silence: (connection: Int, event: Int)?
    /// Longest value of each connection in turn; empty: the radio's.
    package var valueLengths: [Int] = []
    /// The device restarts by itself at these events, counted over all connections.
    package var restarts: [Int] = []
    /// The trial's first boots so often in vain: the device goes back before anybody can look.
    package var reverts = 0
    /// Attempts to connect that find nobody, as where the device has come back with another address; and before which
    /// connection.
    package var missed: (connection: Int, attempts: Int)?
    package var seed: UInt64 = 1

    package init() {}

    /// The device deceives, or what it is sent is spoilt: then a push may end with a reason, and sends more than once.
    package var deceives: Bool { corruption > 0 || lie > 0 || staleTag > 0 || garbage > 0 }
}
