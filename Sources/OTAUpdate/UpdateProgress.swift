/// What a session tells those who watch.
public enum UpdateProgress: Sendable, Equatable {
    case phase(UpdatePhase)
    /// Image bytes that the device has acknowledged, and all of them.
    case transferred(offset: Int, total: Int)
    case linkLost(LinkError)
    case reconnected
    /// The transfer goes on from this offset, in bytes, after a break or from an earlier run.
    case resumed(offset: Int, total: Int)
    /// A half-received image of so many bytes is given up, because nobody asked to resume it or it is another one.
    case discarded(offset: Int)
    /// Chunks got lost on the way; the device wants to go on from this offset, in bytes.
    case gap(offset: Int)
    /// The device lost power or restarted by itself in mid transfer: it holds less than it had acknowledged.
    case deviceReset(offset: Int)
    case confirmed(version: String)
    case note(String)
}
