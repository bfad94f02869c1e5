/// The end of a link.
public struct ConnectionEnd: Sendable, Equatable {
    public let reason: DisconnectReason
    /// The error that calls over the link throw after its end.
    public let error: BlueZError
}
