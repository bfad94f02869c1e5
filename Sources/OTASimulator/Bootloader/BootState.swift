/// What the virtual bootloader has on record.
public struct BootState: Sendable, Equatable {
    public enum Trial: UInt8, Sendable {
        case none = 0
        /// The next boot is of the image on trial.
        case pending = 1
        /// It was booted, once: the next boot goes back.
        case running = 2
    }
    /// The slot whose image runs for good: 0 or 1.
    public var permanent: Int
    /// The trial of the image in the other slot.
    public var trial: Trial
    /// What lies in slot 0 and in slot 1, as far as it was ever marked for boot.
    public var images: [BootImage?]

    /// The slot that does not run for good.
    public var other: Int { 1 - permanent }
}
