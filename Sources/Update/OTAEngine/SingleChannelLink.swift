public import OTAUpdate

/// A link over a transport with one pipe (``ValuePipe``), such as UDP or a serial line. The pipe carries the values of one channel.
///
/// The link confirms a subscription to its channel immediately, because the pipe delivers all received values without a subscription. The
/// link refuses each read and each write with response, because the pipe does not carry responses. It also refuses commands for other
/// channels.
public final class SingleChannelLink<Pipe: ValuePipe>: Sendable {
    private let link: QueuedLink
    private let pipe: Pipe
    // The closure of a task must not capture a `Channel`, so the tasks in `run` read this property. Reason: a `Channel` contains values
    // of the type `UInt128`. If the closure of a task captures such a value, a program that is built with Swift 6.3.1 crashes.
    private let channel: Channel
    private let receive: LinkSink

    /// Creates a link over an open pipe.
    ///
    /// - Parameters:
    ///   - channel: the only channel of the link. All values of the pipe belong to it.
    ///   - maximumValueLength: the maximum length of a value, in bytes.
    ///   - framingOverhead: the number of bytes that the framing adds to each value in the device's receive buffer.
    ///   - discardTime: the time after which the device discards an incomplete value.
    ///   - receive: receives the events of the link.
    public init(
        _ pipe: Pipe, channel: Channel, maximumValueLength: Int, framingOverhead: Int = 0,
        discardTime: Duration = .zero, receive: @escaping LinkSink
    ) {
        link = QueuedLink(
            LinkProperties(
                channels: [channel], maximumValueLength: maximumValueLength, preservesMessageBoundaries: true,
                framingOverhead: framingOverhead, discardTime: discardTime))
        self.pipe = pipe
        self.channel = channel
        self.receive = receive
    }

    /// Runs the link until the link ends, and then closes the pipe. Returns the reason why the link ended.
    public func run(opened: (any Link) -> Void) async -> LinkError {
        opened(link)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { self.link.end(await self.listen()) }
            group.addTask { if let error = await self.perform() { self.link.end(error) } }
            let end = await link.waitForEnd()
            group.cancelAll()
            await pipe.close()
            return end
        }
    }

    private func listen() async -> LinkError {
        while true {
            do throws(LinkError) { receive(.notified(try await pipe.receive(), channel)) } catch { return error }
        }
    }

    private func perform() async -> LinkError? {
        for await command in link.commands {
            do throws(LinkError) { try await perform(command) } catch { return error }
        }
        return nil
    }

    private func perform(_ command: LinkCommand) async throws(LinkError) {
        switch command {
        case .subscribe(let channel) where channel == self.channel: receive(.subscribed(channel))
        case .send(let values, let channel) where channel == self.channel:
            for value in values { try await pipe.send(value) }
        case .send(_, let channel), .subscribe(let channel): refuse(channel, "the device has no such channel")
        case .read(let channel), .write(_, let channel):
            refuse(channel, "this transport does not support requests with a response")
        }
    }

    private func refuse(_ channel: Channel, _ reason: String) {
        receive(.refused(LinkError(.refused, reason), channel))
    }
}

/// A pipe that carries complete values in both directions. Each transport with a single channel implements this protocol.
public protocol ValuePipe: Sendable {
    /// Sends a value, and returns when the operating system has accepted the value. The value can be lost on the way to the device. Only
    /// one task may call `send` at a time.
    func send(_ value: [UInt8]) async throws(LinkError)

    /// Waits for the next value and returns it. After `receive` has thrown an error, the pipe cannot be used any more.
    func receive() async throws(LinkError) -> [UInt8]

    /// Closes the pipe. Pending calls of `send` and `receive` end with an error.
    func close() async
}
