import OTAUpdate

/// The faults between a client and its link that the simulator's `FaultPlan` does not have: misbehaviour of stacks and devices.
///
/// Probabilities are per event or per command.
package struct WorldFaults: Sendable {
    /// A notification arrives twice.
    package var duplicate = 0.0
    /// A notification is delayed and arrives after a later one.
    package var late = 0.0
    /// No event arrives for this time, with this probability, for example while a sector is erased or a stack is busy.
    package var stall = (probability: 0.0, time: Duration.zero)
    /// A bit of a chunk flips before the chunk reaches the device's buffer.
    package var corruption = 0.0
    /// The device's buffers are full, with this probability. This number of consecutive chunks is lost.
    package var overflow = (probability: 0.0, chunks: 0)
    /// The device reports a false position: sequence number, offset or CRC.
    package var lie = 0.0
    /// An answer has the tag of an earlier request.
    package var staleTag = 0.0
    /// The device sends meaningless bytes.
    package var garbage = 0.0
    /// The device sends nothing from this event on, only on this connection (counted from 1).
    package var silence: (connection: Int, event: Int)?
    /// The longest value of each connection in turn, in bytes; if empty, the radio's value applies.
    package var valueLengths: [Int] = []
    /// The bytes of the device's buffer that the framing of the link needs for each packet.
    package var framingOverhead = 0
    /// The events at which the device restarts, counted over all connections.
    package var restarts: [Int] = []
    /// The number of trials that fail at the first boot. The device rolls back before a client can connect.
    package var reverts = 0
    /// The number of connection attempts that find no device, and the connection before which they occur.
    ///
    /// For example, the device has another address after a restart.
    package var missed: (connection: Int, attempts: Int)?
    package var seed: UInt64 = 1

    package init() {}

    /// The device sends false data, or the sent data is corrupted. Then a push may fail with an error and send bytes again.
    package var deceives: Bool { corruption > 0 || lie > 0 || staleTag > 0 || garbage > 0 }
}
