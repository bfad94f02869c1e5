public import OTASigning

/// What a session is made for. A push is made from a `VerifiedBundle` and from nothing else.
public enum ProfileTask: Sendable {
    case push(VerifiedBundle, PushOptions)
    /// What runs, what is staged, how far a broken transfer got.
    case status
    /// Makes the image on trial permanent.
    case confirm
    /// Forgets a half-received image; gives up a trial.
    case discard
    /// Blinks, so that a person can see which device is meant; 0 stops.
    case identify(seconds: UInt8)
}
