import OTAUpdate

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

/// Counts events and packets, and reports the faults of a plan that are due.
struct FaultCounter {
    /// A fault during the transfer of the image.
    enum ImageFault {
        case linkBreaks, deviceGoesAway, powerFails
    }

    private var plan: FaultPlan
    private(set) var hostEvents = 0
    private(set) var devicePackets = 0

    init(_ plan: FaultPlan) { self.plan = plan }

    /// Counts an event to the host. Returns true if the link breaks now.
    mutating func countHostEvent() -> Bool {
        hostEvents += 1
        return plan.cutAfterHostEvents.contains(hostEvents)
    }

    /// Counts a packet to the device. Returns true if the link breaks now.
    mutating func countDevicePacket() -> Bool {
        devicePackets += 1
        return plan.cutAfterDevicePackets.contains(devicePackets)
    }

    /// Returns the fault that is due when the device has received `offset` of `size` bytes of the image.
    ///
    /// If several faults are due, it returns only the most severe one. The others do not happen later.
    mutating func imageReached(_ offset: Int, of size: Int) -> ImageFault? {
        let isDue = { (part: Double) in Double(offset) >= part * Double(size) }
        var fault: ImageFault?
        if plan.dropAt.contains(where: isDue) {
            plan.dropAt.removeAll(where: isDue)
            fault = .linkBreaks
        }
        if plan.resetAt.contains(where: isDue) {
            plan.resetAt.removeAll(where: isDue)
            fault = .powerFails
        }
        if let part = plan.goneAt, isDue(part) {
            plan.goneAt = nil
            fault = .deviceGoesAway
        }
        return fault
    }
}

extension SplitMix64 {
    /// Returns true with this probability. For a probability of 0 it draws no random number, so that an unused fault does not change the
    /// sequence of a run.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}
