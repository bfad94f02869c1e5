/// The counters of a simulated transport since its creation, over all its links. A `FaultPlan` refers to these counters.
public struct SimulationStatistics: Sendable, Equatable {
    /// The number of events to the host, without the last event of each link (`lost`).
    public let hostEvents: Int
    /// The number of packets to the device: writes with and without response, reads, subscriptions, and each further part of a long read.
    /// It includes packets that the device's stack dropped.
    public let devicePackets: Int
    /// The number of erases and programs of the device's flash.
    public let flashOperations: Int
    /// The number of connection attempts that reached the device.
    public let links: Int
    /// The maximum number of chunks in flight: sent to a link, and not yet acknowledged by an offset that has reached the host.
    public let maximumChunksInFlight: Int
    /// A hash of all transmitted values and their times.
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
