public import OTAUpdate

/// A link over a transport with one pipe, such as UDP or a serial line. The pipe carries the values of one channel.
///
/// A subscription succeeds at once, because the pipe always delivers received values. Reads and writes with response are refused,
/// because the pipe has no answers to them.
public final class SingleChannelLink<Pipe: ValuePipe>: Link {
    public let properties: LinkProperties
    public let events: AsyncStream<LinkEvent>
    private let pipe: Pipe
    private let channel: Channel
    private let commands: AsyncStream<LinkCommand>
    private let feed: AsyncStream<LinkCommand>.Continuation
    private let outlet: AsyncStream<LinkEvent>.Continuation

    /// Creates a link over an open pipe.
    ///
    /// - Parameters:
    ///   - channel: the channel of the pipe's values.
    ///   - maximumValueLength: the maximum length of a value, in bytes.
    public init(_ pipe: Pipe, channel: Channel, maximumValueLength: Int) {
        self.pipe = pipe
        self.channel = channel
        properties = LinkProperties(
            channels: [channel], maximumValueLength: maximumValueLength, preservesMessageBoundaries: true)
        (commands, feed) = AsyncStream.makeStream()
        (events, outlet) = AsyncStream.makeStream()
    }

    public func submit(_ command: LinkCommand) { feed.yield(command) }

    public func close() { end(LinkError(.lost, "the link was closed")) }

    /// Ends the link. The stream discards later events.
    private func end(_ error: LinkError) {
        feed.finish()
        outlet.yield(.lost(error))
        outlet.finish()
    }

    /// Forwards commands and values while `body` runs, then closes the pipe.
    public func withForwarding<Result: Sendable>(_ body: (any Link) async -> Result) async -> Result {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { self.end(await self.listen()) }
            group.addTask { if let error = await self.drain() { self.end(error) } }
            let result = await body(self)
            close()
            group.cancelAll()
            await pipe.close()
            return result
        }
    }

    private func listen() async -> LinkError {
        while true {
            do throws(LinkError) { outlet.yield(.notified(try await pipe.receive(), channel)) } catch { return error }
        }
    }

    private func drain() async -> LinkError? {
        for await command in commands {
            do throws(LinkError) { try await carryOut(command) } catch { return error }
        }
        return nil
    }

    private func carryOut(_ command: LinkCommand) async throws(LinkError) {
        switch command {
        case .subscribe(let channel) where channel == self.channel: outlet.yield(.subscribed(channel))
        case .send(let values, let channel) where channel == self.channel:
            for value in values { try await pipe.send(value) }
        case .send(_, let channel), .subscribe(let channel): refuse(channel, "the device has no such channel")
        case .read(let channel), .write(_, let channel):
            refuse(channel, "this transport does not support requests with a response")
        }
    }

    private func refuse(_ channel: Channel, _ reason: String) {
        outlet.yield(.refused(LinkError(.refused, reason), channel))
    }
}

/// A pipe that carries complete values, one at a time. A transport with one channel implements it.
public protocol ValuePipe: Sendable {
    /// Sends a value. Only one caller at a time. Returns when the value was handed over; this does not mean that it arrived.
    func send(_ value: [UInt8]) async throws(LinkError)

    /// Waits for the next value. After an error the pipe cannot be used any more.
    func receive() async throws(LinkError) -> [UInt8]

    /// Closes the pipe. Pending calls of `send` and `receive` end with an error.
    func close() async
}
