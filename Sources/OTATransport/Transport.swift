public import OTAUpdate

/// A transport to one device, such as BLE, UDP, a serial line or the simulator.
public protocol Transport: Sendable {
    /// Opens a link, passes it to `body`, and closes it when `body` returns.
    ///
    /// - Throws: `LinkError` if the link could not be opened.
    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result
}

/// An open connection over a transport. Commands are performed in the order of submission.
public protocol Link: Sendable {
    var properties: LinkProperties { get }

    /// The events of the link. The stream ends after `.lost`. Only one task may read it.
    var events: AsyncStream<LinkEvent> { get }

    /// Queues a command, without suspending. The queue has no limit of its own; the session's window limits it.
    func submit(_ command: LinkCommand)

    /// Ends the link. `.lost` is its last event. A second call has no effect.
    func close()
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
