public import OTAFirmware
public import OTAFleet
public import OTASigning

/// The devices that a gateway can hear and update. A gateway accesses devices only through this protocol, so it depends on no transport.
public protocol GatewayDevices: Sendable {
    /// Reports which devices are in range, until the task is cancelled. The gateway calls this method once. If the method returns earlier,
    /// the devices in range at that time stay in range for the gateway.
    ///
    /// - Parameters:
    ///   - record: reads the record of a device from the store, and returns what it shows.
    ///   - report: called for each change.
    func hear(
        record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
    ) async

    /// Pushes a bundle to a device, and confirms the image after the restart. If the task is cancelled, the push ends as soon as possible.
    ///
    /// - Parameters:
    ///   - onlyConfirms: true if the push may only confirm the image on trial. If the device does not run the image, the push must end with
    ///     `.retry(.notInTrial)` before the first change on the device.
    ///   - refusesDowngrade: true if the push must end with `.refused` before the first change on a device that runs a newer version.
    ///   - interrupts: an element asks the push to end within 2 s. The device keeps the received bytes. From the report of the phase
    ///     `trial` on, the push ignores interrupts.
    ///   - report: called with each step of the progress, in order, before this method returns. A push reports the phase `connect` when the
    ///     device has answered for the first time. Then it reports the phase `transfer`, even if the device already has all bytes. It
    ///     reports `trial` before it marks the image for boot. If a push finds the device on trial, it does not report `transfer`.
    func push(
        _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
        interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd
}

/// What the record of a device shows before the gateway asks the device for its product and version.
public enum RecordedUse: Sendable, Hashable {
    /// The device's last update was successful, and this gateway performed it. The record has the product and the version of the device, so
    /// the gateway need not ask the device.
    case updatedHere
    /// An attempt of another gateway is under way. A request would disturb it: for example, Zephyr's server has few buffers, and drops a chunk
    /// if a request occupies one of them. While the other gateway runs, the revision changes every 10 s (`Lease`).
    case inUse(revision: UInt64)
    /// No other gateway updates the device, or the record could not be read.
    case free
}

/// A change of the devices in range.
public enum Sighting: Sendable, Hashable {
    /// The device is in range.
    ///
    /// - Parameters:
    ///   - product: the product that the device reported; nil if the product was not read.
    ///   - version: the version of the running image; nil if the version was not read.
    ///   - rssi: the signal strength in dBm; nil if the transport has no radio.
    case heard(DeviceID, product: ProductName?, version: SemanticVersion?, rssi: Int?)
    /// The device is not in range any more.
    case lost(DeviceID)
}

/// The progress of a push.
public struct PushStep: Sendable, Hashable {
    public let phase: DeviceRecord.Phase
    /// The number of bytes that the device has received, and the size of the image in bytes. Nil: the value of the previous step applies.
    public let offset, total: Int?
    /// The number of bytes that this push has sent over the link, including the bytes that it sent again; nil: no new number.
    public let sent: Int?

    public init(_ phase: DeviceRecord.Phase, offset: Int? = nil, total: Int? = nil, sent: Int? = nil) {
        self.phase = phase
        self.offset = offset
        self.total = total
        self.sent = sent
    }
}
