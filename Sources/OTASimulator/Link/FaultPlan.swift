/// What goes wrong, and when. Counts and fractions are over the whole life of a `SimulatedTransport`, over all of its
/// links.
public struct FaultPlan: Sendable, Equatable {
    /// The link breaks when the device's reception of the image first gets to these parts of it, 0...1; once for each.
    public var dropAt: [Double] = []
    /// The same, and the device is out of reach from then on.
    public var goneAt: Double?
    /// The device loses power when the image first gets to these parts of it; once for each.
    public var resetAt: [Double] = []
    /// Probability that the device's stack drops a chunk.
    public var gap = 0.0
    /// Probability that the device's stack takes a notification and loses it.
    public var notificationLoss = 0.0
    /// Probability that the device's stack has no buffer for a notification, and says so.
    public var notificationRefusal = 0.0
    /// How long the device is out of reach after a break of the link that this plan made.
    public var outOfReach: Duration = .zero
    /// The link breaks right after so many events were handed to the host; once for each.
    public var cutAfterHostEvents: [Int] = []
    /// The link breaks right after so many packets were handed to the device; once for each.
    public var cutAfterDevicePackets: [Int] = []
    /// The device loses power at these flash operations.
    public var powerCuts: [PowerCut] = []
    /// These flash operations of the device fail, or succeed wrongly, with the power on.
    public var flashFaults: [FlashFault] = []
    /// Of what the device programs into a slot at these flash operations one bit is wrong, and nobody is told.
    public var wornPrograms: [Int] = []

    public init() {}
}
