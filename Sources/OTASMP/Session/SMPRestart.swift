/// How far the device's restart got, whose effect outlives the connection.
enum SMPRestart: Equatable {
    case none
    /// Sent, and no answer yet: the device may have acted on it.
    case asked
    /// The device has said that it restarts, or the link was lost before it could.
    case under(since: Duration)
}
