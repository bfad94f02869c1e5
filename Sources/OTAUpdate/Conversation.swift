/// The requests and answers of one protocol over the links of a session.
///
/// `UpdateSession` connects, reconnects and ends; a conversation does the rest. It is a value without a clock, like its session. The
/// session calls it only while a link is open. In each call, the conversation appends actions to `shared`. It can decide there that
/// the session reconnects, has finished or has failed. After such a decision, the next call is `begin()` on a new link, or none.
///
/// The static properties and `restartTime` are the differences between the protocols that the session must know.
package protocol Conversation: Sendable {
    /// The protocol, for the report.
    static var updateProtocol: UpdateProtocol { get }
    /// The error code of a session whose last link ended with `LinkError.Code.timedOut`.
    static var codeAfterTimeout: UpdateError.Code { get }

    var shared: ConversationState { get set }
    /// True if the device is known to answer. If false, errors such as `noSuchDevice` end the session without a retry.
    var isDeviceReached: Bool { get }
    /// The longest duration of one restart of the device. If the link is lost after the restart, it extends the restart window.
    var restartTime: Duration { get }
    /// The highest number of bytes of the current image that were passed to the link.
    var sentOffset: Int { get }
    /// The time at which the conversation needs `deadlinePassed()`. Never nil while a link is open and nothing is decided.
    var deadline: Duration? { get }

    /// Begins on a link that has just opened: the first one or a later one.
    mutating func begin()
    /// Handles an event of the link; never `lost`.
    mutating func handle(_ event: LinkEvent)
    mutating func deadlinePassed()
    /// Discards the state of the link, which has ended. Actions and decisions are not allowed here.
    mutating func linkEnded()
}

/// The state that a conversation shares with its session.
package struct ConversationState: Sendable {
    /// How the session gets a new link.
    package enum Reconnection: Sendable {
        /// The link is unusable, for this reason. The attempt counts as failed.
        case afterLoss(LinkError)
        /// Late values of the old link must not reach the new one. The attempt does not count as failed.
        case clean
        /// The device restarts. `reportsPhase` is true if the session reports `UpdatePhase.restart` at the end of the link.
        case afterRestart(reportsPhase: Bool)
    }
    /// A request that the device answered with *busy* is sent again after this time.
    package static let busyInterval = Duration.seconds(2)
    static let busyLimit = Duration.seconds(90)

    enum Decision: Sendable {
        case reconnect(Reconnection)
        case finish(UpdateReport)
        case fail(UpdateError)
    }

    /// The time since the start of the session.
    package internal(set) var now = Duration.zero
    /// The properties of the open link, or of the last one.
    package internal(set) var link = LinkProperties(channels: [], maximumValueLength: 0)
    /// The end of the restart window. Until then the session looks for the device again and again; nil: there is no restart window,
    /// and `RetryPolicy` limits the attempts.
    package var restartDeadline: Duration?
    /// The statistics of a push; nil for other tasks.
    package var transfer: TransferReport?
    /// The limits of a push; nil for other tasks.
    package var budget: ProgressBudget?
    /// The fields of the bundle that could not be checked against the device, by their JSON names.
    package var unchecked: [String] = []

    /// The number of the last request. The first one is random.
    var number: UInt8 = 0
    var actions: [UpdateAction] = []
    var decision: Decision?
    var hasProgressed = false

    package init() {}

    /// Creates the state of a push.
    ///
    /// - Parameter imageBytes: the size of all images, in bytes.
    package init(pushOf imageBytes: Int) {
        transfer = TransferReport()
        budget = ProgressBudget(imageBytes: imageBytes)
    }

    /// The end of the time for which the device may answer *busy* to a request that is sent now.
    package var busyEnd: Duration { now + Self.busyLimit }

    /// Returns the number of the next request, modulo 256.
    package mutating func nextNumber() -> UInt8 {
        number &+= 1
        return number
    }

    /// Begins a call at a time. The restart window has a time limit of its own, so the budget does not count it.
    mutating func pass(to now: Duration) {
        self.now = now
        budget?.pass(to: now, counts: restartDeadline == nil)
    }

    /// Returns what the conversation has requested since the last call.
    mutating func endTurn() -> (actions: [UpdateAction], decision: Decision?, hasProgressed: Bool) {
        defer { (actions, decision, hasProgressed) = ([], nil, false) }
        return (actions, decision, hasProgressed)
    }

    mutating func decide(_ decision: Decision) { self.decision = self.decision ?? decision }
}

extension Conversation {
    /// True if the conversation has decided in this call.
    package var hasDecided: Bool { shared.decision != nil }

    package mutating func submit(_ command: LinkCommand) { shared.actions.append(.link(command)) }

    /// Records the time of the transfer, and reports it.
    ///
    /// - Parameter began: the time of the first sent byte; nil: this run sent none.
    package mutating func uploaded(since began: Duration?) {
        guard let began, var transfer = shared.transfer else { return }
        transfer.duration = shared.now - began
        shared.transfer = transfer
        report(.uploaded(transfer))
    }

    package mutating func report(_ progress: UpdateProgress) { shared.actions.append(.report(progress)) }

    /// Resets the count of failed attempts to connect.
    package mutating func progressed() { shared.hasProgressed = true }

    package mutating func reconnect(_ reconnection: ConversationState.Reconnection) {
        shared.decide(.reconnect(reconnection))
    }

    package mutating func finish(_ outcome: UpdateReport.Outcome, _ device: DeviceDescription) {
        shared.decide(
            .finish(
                UpdateReport(
                    outcome: outcome, updateProtocol: Self.updateProtocol, device: device, transfer: shared.transfer,
                    unchecked: shared.unchecked)))
    }

    /// Returns the time at which a request is sent again that the device answered with *busy*; nil: the session has failed.
    ///
    /// - Parameters:
    ///   - request: the name of the request.
    ///   - busyEnd: the end of the time for which the device may answer *busy*.
    package mutating func nextAttempt(_ request: String, busyEnd: Duration) -> Duration? {
        let again = shared.now + ConversationState.busyInterval
        guard again > busyEnd else { return again }
        let seconds = ConversationState.busyLimit.components.seconds
        fail(UpdateError(.deviceBusy, "the device answered \(request) with busy for \(seconds) s"))
        return nil
    }

    package mutating func fail(_ error: UpdateError) { shared.decide(.fail(error)) }

    /// Fails after an error that the link reported for a command, or reconnects.
    package mutating func refused(_ error: LinkError) {
        if error.code == .notPermitted { return fail(UpdateError(.notPermitted, error.detail)) }
        reconnect(.afterLoss(LinkError(.lost, "the device refused a request: \(error.detail)")))
    }
}
