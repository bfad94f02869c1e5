/// How a link ended.
public struct ConnectionEnd: Sendable, Equatable {
    public let reason: DisconnectReason
    /// What calls over it throw from then on.
    public let error: BlueZError
}
