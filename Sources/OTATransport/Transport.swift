public import OTAUpdate

/// A transport to one device, such as BLE, UDP, a serial line or the simulator.
public protocol Transport: Sendable {
    /// Opens a link and runs it until it is closed or lost, or the task is cancelled.
    ///
    /// - Parameters:
    ///   - opened: receives the open link, once and before the first event.
    ///   - receive: receives each event. After a close it can still receive events, but none after the return.
    /// - Returns: the reason why the link ended.
    /// - Throws: `LinkError` if the link could not be opened.
    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError
}

/// Receives the events of a link, in order. It must not block or call the link, because the transport may hold a lock.
public typealias LinkSink = @Sendable (LinkEvent) -> Void

/// An open connection over a transport. Commands are performed in the order of submission.
public protocol Link: Sendable {
    var properties: LinkProperties { get }

    /// Queues a command, without suspending. The queue itself has no limit, but the session's window limits the number of commands.
    func submit(_ command: LinkCommand)

    /// Ends the link, without suspending. A second call has no effect.
    func close()
}

/// A link that queues its commands for a task of its transport.
public final class QueuedLink: Link {
    public let properties: LinkProperties
    /// The submitted commands. The stream ends with the link. Only one task may read it.
    public let commands: AsyncStream<LinkCommand>
    private let queue: AsyncStream<LinkCommand>.Continuation
    private let ends: AsyncStream<LinkError>
    private let ending: AsyncStream<LinkError>.Continuation

    public init(_ properties: LinkProperties) {
        self.properties = properties
        (commands, queue) = AsyncStream.makeStream()
        (ends, ending) = AsyncStream.makeStream()
    }

    public func submit(_ command: LinkCommand) { queue.yield(command) }

    public func close() { end(LinkError(.lost, "the link was closed")) }

    /// Ends the link with this reason. A second call has no effect.
    public func end(_ reason: LinkError) {
        queue.finish()
        ending.yield(reason)
        ending.finish()
    }

    /// Waits until the link has ended, and returns the reason. A cancellation of the task ends the link.
    public func waitForEnd() async -> LinkError {
        for await reason in ends { return reason }
        close()
        return LinkError(.lost, "the task was cancelled")
    }
}

/// The reason why a text is not the address of a device.
public struct AddressError: Error, Sendable, Equatable {
    /// The description for people, without a full stop.
    public var context: String
    /// A hint with a correct address or command.
    public var hint: String

    public init(_ context: String, hint: String) {
        self.context = context
        self.hint = hint
    }
}
