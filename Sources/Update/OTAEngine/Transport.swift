public import OTAUpdate

/// A transport to one device, such as BLE, UDP, a serial line or the simulator.
public protocol Transport: Sendable {
    /// Opens a link, and runs the link until it is closed or lost, or until the task is cancelled.
    ///
    /// - Parameters:
    ///   - opened: is called once with the open link, before the first event.
    ///   - receive: is called with each event of the link. `receive` may be called even after ``Link/close()``, but not after `runLink`
    ///     has returned.
    /// - Returns: the reason why the link ended.
    /// - Throws: `LinkError` if the link could not be opened.
    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError

    /// Opens and runs a link to a target, as `runLink(opened:receive:)` does to `LinkTarget.device`.
    ///
    /// A transport without `LinkProperties.programName` does not implement this method. It reaches every program of the device at the address
    /// of the device.
    ///
    /// - Throws: also `noSuchDevice` if the transport has searched the program for its whole time limit.
    func runLink(
        to target: LinkTarget, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError

    /// Opens and runs a link as `runLink(opened:receive:)` does, but the device has restarted and may have a new address. If the device
    /// does not appear, the transport opens a link to a candidate: a device that looks like the device. The address of the candidate is in
    /// `LinkProperties.candidate`, or in `LinkError.candidate` if the link could not be opened.
    ///
    /// A transport whose devices keep their addresses does not implement this method.
    ///
    /// - Parameter rejected: the addresses of the candidates that are other devices.
    func runLink(
        rejecting rejected: Set<String>, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError
}

extension Transport {
    public func runLink(
        to target: LinkTarget, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await runLink(opened: opened, receive: receive)
    }

    public func runLink(
        rejecting rejected: Set<String>, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        try await runLink(opened: opened, receive: receive)
    }
}

/// A function that receives the events of a link, in order. The function must not block and must not call the link, because the transport
/// may hold a lock during the call.
public typealias LinkSink = @Sendable (LinkEvent) -> Void

/// An open connection over a transport. The link performs the commands in the order in which they were submitted.
public protocol Link: Sendable {
    var properties: LinkProperties { get }

    /// Queues a command and returns immediately. The queue has no limit. The number of queued commands stays small, because the session
    /// limits the number of chunks in flight.
    func submit(_ command: LinkCommand)

    /// Accepts the candidate of this link as the device of the session. The next links are to its address.
    func acceptCandidate()

    /// Ends the link and returns immediately. A second call has no effect.
    func close()
}

extension Link {
    public func acceptCandidate() {}
}

/// A link that puts its commands into a queue. A task of the transport reads the queue and performs the commands.
public final class QueuedLink: Link {
    public let properties: LinkProperties
    /// The submitted commands. The stream ends when the link ends. Only one task may read the stream.
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

    /// Ends the link with the given reason. A second call has no effect.
    public func end(_ reason: LinkError) {
        queue.finish()
        ending.yield(reason)
        ending.finish()
    }

    /// Waits until the link has ended, and returns the reason. If the waiting task is cancelled, this method ends the link.
    public func waitForEnd() async -> LinkError {
        for await reason in ends { return reason }
        close()
        return LinkError(.lost, "the task was cancelled")
    }
}

/// The error for a text that is not a valid device address.
public struct AddressError: Error, Sendable, Equatable {
    /// The description of the error for the user, without a full stop at the end.
    public var context: String
    /// A hint with a correct address or command.
    public var hint: String

    public init(_ context: String, hint: String) {
        self.context = context
        self.hint = hint
    }
}
