/// How a push is to go. An upload that was broken off is always resumed: the device knows it by the file's SHA-256.
public struct SMPPushOptions: Sendable, Equatable {
    /// What becomes of the image once it is on the device.
    public enum Ending: Sendable, Equatable {
        /// It is tried, and confirmed once it runs.
        case confirm
        /// It is tried, and left to somebody else to confirm.
        case trial
        /// It is marked for good before it has ever run.
        case permanent
        /// It lies in the other slot, and nothing is marked.
        case uploadOnly
    }
    public var ending: Ending
    /// Refuse a version lower than the running one, which otherwise is only noted.
    public var refusesDowngrade: Bool
    /// Push a bundle even if SMP cannot check all of its fields against the device.
    public var acceptsUncheckedTarget: Bool

    public init(ending: Ending = .confirm, refusesDowngrade: Bool = false, acceptsUncheckedTarget: Bool = false) {
        self.ending = ending
        self.refusesDowngrade = refusesDowngrade
        self.acceptsUncheckedTarget = acceptsUncheckedTarget
    }
}
