public import OTAUpdate

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
