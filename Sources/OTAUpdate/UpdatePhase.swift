/// Where an update stands, as a person follows it.
public enum UpdatePhase: String, Sendable, CaseIterable {
    case connect
    /// Reading what the device is, and judging whether the bundle fits it.
    case preflight
    /// Sending manifest and signatures, for the device to judge.
    case envelope
    case transfer
    /// The device reads the image back and compares its digest.
    case verify
    /// The image is marked for boot.
    case apply
    /// The device restarts with the new image.
    case restart
    case confirm
}
