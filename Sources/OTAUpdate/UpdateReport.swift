/// What a session found and did.
public struct UpdateReport: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
        /// The new version runs and is there to stay.
        case confirmed
        /// The new version runs; it goes back by itself unless it is confirmed within so many seconds of its boot;
        /// 0: before its next restart, whenever that is.
        case onTrial(seconds: Int)
        /// The device runs this very image for good already: nothing was sent.
        case alreadyRunning
        /// What was asked for was only looked at, or has no more to tell (status, discard, identify).
        case done
    }
    public var outcome: Outcome
    public var device: DeviceDescription
    /// Present where image bytes were to be sent, or a half-received image was found.
    public var transfer: TransferReport?
    /// Fields of the bundle that the protocol could not check against the device, named as in the JSON of a bundle.
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
