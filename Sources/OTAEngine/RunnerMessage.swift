import OTATransport
import OTAUpdate

/// A message from a child task to the runner's mailbox. It has the number of its connection, so that the runner can discard
/// messages of an earlier link.
enum RunnerMessage<Instant: Sendable>: Sendable {
    case interrupted
    /// The time limit of the run has passed.
    case limitReached
    case up(any Link, connection: Int)
    case link(LinkEvent, connection: Int)
    case down(LinkError, connection: Int)
    /// The timer for this instant has fired.
    case woken(Instant)
}
