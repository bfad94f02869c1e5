/// The result of a successful session.
public struct UpdateReport: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
        /// The new version runs and is confirmed.
        case confirmed
        /// The new version runs on trial. The device rolls back unless the version is confirmed within `seconds` after its boot.
        /// 0: no time limit; the version must be confirmed before the next restart.
        case onTrial(seconds: Int)
        /// The device already runs this image, confirmed: nothing was sent.
        case alreadyRunning
        /// The task is done and has no other outcome (status, discard, identify).
        case done
    }
    public var outcome: Outcome
    public var device: DeviceDescription
    /// The statistics of the transfer; nil if there was nothing to send and no half-received image was found.
    public var transfer: TransferReport?
    /// The fields of the bundle that could not be checked against the device, by their JSON names.
    public var unchecked: [String]

    public init(
        outcome: Outcome, device: DeviceDescription, transfer: TransferReport? = nil, unchecked: [String] = []
    ) {
        self.outcome = outcome
        self.device = device
        self.transfer = transfer
        self.unchecked = unchecked
    }
}
