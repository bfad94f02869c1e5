/// The state that the virtual bootloader stores in the flash.
public struct BootState: Sendable, Equatable {
    public enum Trial: UInt8, Sendable {
        case none = 0
        /// The next boot starts the image on trial.
        case pending = 1
        /// The image on trial was booted once. The next boot rolls back.
        case running = 2
    }
    /// The slot of the permanent image: 0 or 1.
    public var permanent: Int
    /// The trial of the image in the other slot.
    public var trial: Trial
    /// The images in slot 0 and slot 1. An image has an entry only if it was marked for boot.
    public var images: [BootImage?]

    /// The slot without the permanent image.
    public var other: Int { 1 - permanent }
}
