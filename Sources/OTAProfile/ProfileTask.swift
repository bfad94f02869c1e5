public import OTASigning

/// The task of one session. A push requires a `VerifiedBundle`.
public enum ProfileTask: Sendable {
    case push(VerifiedBundle, PushOptions)
    /// Reports the running image, the staged image and the offset of an incomplete transfer.
    case status
    /// Makes the image on trial permanent.
    case confirm
    /// Discards an incomplete image, or ends a trial and rolls back.
    case discard
    /// Makes the device blink for this number of seconds, so that the user can find it. 0 stops it.
    case identify(seconds: UInt8)
}
