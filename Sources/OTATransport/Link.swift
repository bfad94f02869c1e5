public import OTAUpdate

/// A live connection. Commands are carried out in the order in which they were submitted.
public protocol Link: Sendable {
    var properties: LinkProperties { get }

    /// What the link tells. Ends after `.lost`; read by one task.
    var events: AsyncStream<LinkEvent> { get }

    /// Never suspends: a link is a queue, bounded by nothing but the session's own window.
    func submit(_ command: LinkCommand)

    /// Ends the link: `.lost` comes, and nothing after it. A second call does nothing.
    func close()
}
