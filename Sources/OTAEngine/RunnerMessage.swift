import OTATransport
import OTAUpdate

/// What the runner's child tasks post to its one mailbox. A message carries the number of its connection: what an earlier link
/// still says is dropped.
enum RunnerMessage<Instant: Sendable>: Sendable {
    case interrupted
    /// The run's time limit has passed.
    case limitReached
    case up(any Link, connection: Int)
    case link(LinkEvent, connection: Int)
    case down(LinkError, connection: Int)
    /// The sleeper that was due at this instant has woken.
    case woken(Instant)
}
