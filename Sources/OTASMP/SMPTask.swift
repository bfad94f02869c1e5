/// What a session is made for. What is pushed is a `VerifiedImage`, and nothing else.
public enum SMPTask: Sendable {
    case push([SMPImage], SMPPushOptions)
    /// What runs, and what lies in the other slot.
    case status
    /// Makes the image on trial permanent.
    case confirm
    /// Gives up a trial; without one, empties the other slot.
    case discard
    /// Refused: SMP has no such command.
    case identify
}
