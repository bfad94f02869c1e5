/// What a link has to offer, known when it comes up and unchanged while it lasts.
public struct LinkProperties: Sendable, Equatable {
    /// What the device offers.
    public var channels: Set<Channel>
    /// Longest value, in bytes, that a send, a write or a notification carries: MTU − 3 on GATT.
    public var maximumValueLength: Int

    public init(channels: Set<Channel>, maximumValueLength: Int) {
        self.channels = channels
        self.maximumValueLength = maximumValueLength
    }
}
