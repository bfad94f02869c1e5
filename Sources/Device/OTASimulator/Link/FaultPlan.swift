import OTAUpdate

/// The faults that a ``SimulatedTransport`` injects. The first event, packet and flash operation after the creation of the transport have
/// the number 1. A new link does not reset the numbers.
public struct FaultPlan: Sendable, Equatable {
    /// The fractions of the image (0...1) at which the link breaks, when the device has received this part of the image. If the device
    /// passes several fractions in one step, the link breaks only once.
    public var dropAt: [Double] = []
    /// The fraction of the image (0...1) at which the link breaks and the device goes out of reach permanently. Nil means that this fault
    /// does not happen.
    public var goneAt: Double?
    /// The fractions of the image (0...1) at which the device loses power. If the device passes several fractions in one step, the device
    /// loses power only once.
    public var resetAt: [Double] = []
    /// The probability (0...1) that the device's Bluetooth stack drops a value that was written without response to
    /// ``SimulatedDevice/dataChannel``. With the GATT OTA profile, this value is a chunk. Over SMP, it is a request or a part of one.
    public var gap = 0.0
    /// The probability (0...1) that the device's Bluetooth stack accepts a notification but does not send it.
    public var notificationLoss = 0.0
    /// The probability (0...1) that the device's Bluetooth stack refuses a notification, as if no buffer were free.
    public var notificationRefusal = 0.0
    /// After a fault of this plan has broken the link, the device is out of reach for this time.
    public var outOfReach: Duration = .zero
    /// The numbers of events to the host. The link breaks after each of these events. `SimulationStatistics.hostEvents` counts all events
    /// to the host.
    public var cutAfterHostEvents: [Int] = []
    /// The numbers of packets to the device. The link breaks after each of these packets. `SimulationStatistics.devicePackets` counts all
    /// packets to the device.
    public var cutAfterDevicePackets: [Int] = []
    /// The flash operations at which the device loses power. The first operation has the number 1.
    public var powerCuts: [PowerCut] = []
    /// The flash operations that fail or store wrong data while the device has power. The first operation has the number 1.
    public var flashFaults: [FlashFault] = []
    /// The numbers of worn writes. A worn write stores one wrong bit and reports success. A number has an effect only if the flash
    /// operation with this number is a write to a slot. The first operation has the number 1.
    public var wornPrograms: [Int] = []

    public init() {}
}

/// Counts events and packets, and reports the due faults of a plan.
struct FaultCounter {
    /// A fault that happens during the transfer of an image.
    enum ImageFault {
        case linkBreaks, deviceGoesAway, powerFails
    }

    private var plan: FaultPlan
    private(set) var hostEvents = 0
    private(set) var devicePackets = 0

    init(_ plan: FaultPlan) { self.plan = plan }

    /// Counts an event to the host. Returns true if the link breaks after this event.
    mutating func countHostEvent() -> Bool {
        hostEvents += 1
        return plan.cutAfterHostEvents.contains(hostEvents)
    }

    /// Counts a packet to the device. Returns true if the link breaks after this packet.
    mutating func countDevicePacket() -> Bool {
        devicePackets += 1
        return plan.cutAfterDevicePackets.contains(devicePackets)
    }

    /// Returns the fault that is due after the device has received `offset` of `size` bytes of the image. Returns nil if no fault is due.
    ///
    /// If several faults are due, the function returns the most severe fault and discards the others. `deviceGoesAway` is more severe than
    /// `powerFails`, and `powerFails` is more severe than `linkBreaks`.
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
    /// Returns true with the given probability. If the probability is 0, the function draws no random number. Therefore a fault with
    /// probability 0 does not change the random numbers of a run.
    mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double(next() >> 11) * 0x1p-53 < probability
    }
}
