/// How far a fault plan has come.
struct FaultCounter {
    /// What happens to a link that the image comes over.
    enum ImageFault {
        case linkBreaks, deviceGoesAway, powerFails
    }

    private var plan: FaultPlan
    private(set) var hostEvents = 0
    private(set) var devicePackets = 0

    init(_ plan: FaultPlan) { self.plan = plan }

    /// One more event was handed to the host. True: the link breaks now.
    mutating func countHostEvent() -> Bool {
        hostEvents += 1
        return plan.cutAfterHostEvents.contains(hostEvents)
    }

    /// One more packet was handed to the device. True: the link breaks now.
    mutating func countDevicePacket() -> Bool {
        devicePackets += 1
        return plan.cutAfterDevicePackets.contains(devicePackets)
    }

    /// The device has so many bytes of the image. Of several faults that are due the worst happens, and the others are
    /// over.
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
