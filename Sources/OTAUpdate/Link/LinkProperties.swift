/// What a link has to offer, known when it comes up and unchanged while it lasts.
public struct LinkProperties: Sendable, Equatable {
    /// What the device offers.
    public var channels: Set<Channel>
    /// Longest value, in bytes, that a send, a write or a notification carries: MTU − 3 on GATT.
    public var maximumValueLength: Int
    /// Each value is a message by itself, as a datagram is; on GATT a message may go in several.
    public var preservesMessageBoundaries: Bool

    public init(channels: Set<Channel>, maximumValueLength: Int, preservesMessageBoundaries: Bool = false) {
        self.channels = channels
        self.maximumValueLength = maximumValueLength
        self.preservesMessageBoundaries = preservesMessageBoundaries
    }
}
