/// The phase of an update, for progress reports.
public enum UpdatePhase: String, Sendable, CaseIterable {
    case connect
    /// Read the device's status and check that the bundle fits it.
    case preflight
    /// Send the envelope (manifest and signatures), which the device verifies.
    case envelope
    case transfer
    /// The device reads the image from flash and compares its digest.
    case verify
    /// Mark the image for boot.
    case apply
    /// The device restarts with the new image.
    case restart
    case confirm
}
