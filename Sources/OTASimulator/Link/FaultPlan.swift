/// The faults of a simulation and their times. Counts and fractions apply to the whole life of a `SimulatedTransport`, with all its
/// links.
public struct FaultPlan: Sendable, Equatable {
    /// The link breaks when the image transfer first reaches these fractions (0...1), once for each.
    public var dropAt: [Double] = []
    /// The link breaks when the image transfer first reaches this fraction, and the device stays out of reach.
    public var goneAt: Double?
    /// The device loses power when the image transfer first reaches these fractions (0...1), once for each.
    public var resetAt: [Double] = []
    /// The probability that the device's stack drops a chunk.
    public var gap = 0.0
    /// The probability that the device's stack accepts a notification and loses it.
    public var notificationLoss = 0.0
    /// The probability that the device's stack reports that it has no buffer for a notification.
    public var notificationRefusal = 0.0
    /// The time for which the device is out of reach after this plan broke the link.
    public var outOfReach: Duration = .zero
    /// The link breaks after these numbers of events to the host, once for each.
    public var cutAfterHostEvents: [Int] = []
    /// The link breaks after these numbers of packets to the device, once for each.
    public var cutAfterDevicePackets: [Int] = []
    /// The device loses power at these flash operations.
    public var powerCuts: [PowerCut] = []
    /// These flash operations of the device fail or store wrong data, with the power on.
    public var flashFaults: [FlashFault] = []
    /// These flash operations store one wrong bit if they program a slot, and report success.
    public var wornPrograms: [Int] = []

    public init() {}
}
