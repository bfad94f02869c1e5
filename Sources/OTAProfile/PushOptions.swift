/// How a push is to go.
public struct PushOptions: Sendable, Equatable {
    /// How the new image becomes the one that runs for good.
    public enum Ending: Sendable, Equatable {
        /// It is tried, and confirmed once it runs.
        case confirm
        /// It is tried, and left to somebody else to confirm.
        case trial
        /// It is marked for good at once: for a device whose bootloader has no way back.
        case permanent
    }
    /// Take up what an earlier run left on the device.
    public var resume: Bool
    public var ending: Ending
    /// Refuse a version lower than the running one, which otherwise is only noted.
    public var refusesDowngrade: Bool

    public init(resume: Bool = false, ending: Ending = .confirm, refusesDowngrade: Bool = false) {
        self.resume = resume
        self.ending = ending
        self.refusesDowngrade = refusesDowngrade
    }
}
