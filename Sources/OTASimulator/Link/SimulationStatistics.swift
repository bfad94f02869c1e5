/// What a simulated transport has counted since it was made, over all of its links: the counts that a `FaultPlan` speaks of.
public struct SimulationStatistics: Sendable, Equatable {
    /// Events handed to the host, the last one of each link (`lost`) left out.
    public let hostEvents: Int
    /// Packets handed to the device: writes with and without response, reads and subscriptions, and each further part of a
    /// long read. Those that its stack then dropped are counted.
    public let devicePackets: Int
    /// Erases and programs of the device's flash.
    public let flashOperations: Int
    /// Links made.
    public let links: Int
    /// The most chunks that were in flight: given to a link, and not acknowledged by a position that had reached the host.
    public let maximumChunksInFlight: Int
    /// A hash of all that passed, with the times at which it did.
    public let transcript: UInt64

    init(_ world: SimulatedWorld) {
        hostEvents = world.faults.hostEvents
        devicePackets = world.faults.devicePackets
        flashOperations = world.device.flashOperationCount - world.firstFlashOperation
        links = world.links
        maximumChunksInFlight = world.window.maximum
        transcript = world.transcript.hash
    }
}
