/// The properties of an open link. They are constant until the link ends.
public struct LinkProperties: Sendable, Equatable {
    /// The channels that the device offers.
    public var channels: Set<Channel>
    /// The maximum length of a sent, written or notified value, in bytes: MTU − 3 on GATT.
    public var maximumValueLength: Int
    /// True if each value is a complete message, such as a datagram. On GATT a message can consist of several values.
    public var preservesMessageBoundaries: Bool

    public init(channels: Set<Channel>, maximumValueLength: Int, preservesMessageBoundaries: Bool = false) {
        self.channels = channels
        self.maximumValueLength = maximumValueLength
        self.preservesMessageBoundaries = preservesMessageBoundaries
    }
}
