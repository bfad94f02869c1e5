/// The messages that must arrive once, also after a cut link. An end keeps each of these messages until the other end has confirmed it.
/// With the greeting of the next link, each end reports how many messages it has received, and the other end sends the rest again.
public struct Outbox: Sendable {
    /// The number of messages that may wait for a confirmation.
    public static let limit = 64

    private var messages: [Message] = []
    /// The number of confirmed messages of the conversation.
    private var confirmed: UInt32 = 0
    /// The number of `messages` that are queued in the channel of the current link.
    private var queued = 0

    /// The number of messages that the other end has not confirmed.
    var count: Int { messages.count }

    /// Adds a message. Returns false if too many messages wait, or if the message is too long.
    mutating func add(_ message: Message) -> Bool {
        guard count < Self.limit, message.bytes.count <= Channel.longestMessage else { return false }
        messages.append(message)
        return true
    }

    /// Starts with a new link. The other end has received this number of messages in the conversation. If it has lost its state, the number
    /// is not one that this end expects. Then all messages are sent again.
    mutating func resume(after received: UInt32) {
        let news = Int(received &- confirmed)
        if news <= count { messages.removeFirst(news) }
        confirmed = received
        queued = 0
    }

    /// Moves the queued messages to a channel while it has room.
    mutating func move(to channel: inout Channel) {
        while queued < count, channel.hasRoom {
            channel.send(messages[queued].bytes, isCounted: true)
            queued += 1
        }
    }

    /// Removes the messages that the other end has confirmed.
    mutating func confirm(in channel: inout Channel) {
        let news = channel.takeConfirmed()
        messages.removeFirst(news)
        confirmed &+= UInt32(news)
        queued -= news
    }
}
