/// A progress event of a session.
public enum UpdateProgress: Sendable, Equatable {
    case phase(UpdatePhase)
    /// The device has acknowledged `offset` of `total` image bytes.
    case transferred(offset: Int, total: Int)
    case linkLost(LinkError)
    case reconnected
    /// The transfer resumes at this offset, in bytes, after a lost link or an earlier run.
    case resumed(offset: Int, total: Int)
    /// The half-received image of `offset` bytes is discarded: it is another image, or no resume was requested.
    case discarded(offset: Int)
    /// Chunks were lost; the device requests the bytes from this offset on.
    case gap(offset: Int)
    /// The device lost power or restarted during the transfer. It has fewer bytes than it had acknowledged.
    case deviceReset(offset: Int)
    case confirmed(version: String)
    case note(String)
}
