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
