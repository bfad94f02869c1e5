/// The requests and answers of one protocol over the links of a session.
///
/// `UpdateSession` connects, reconnects and ends. Its conversation exchanges the packets. Both are values without a clock. The session
/// calls the conversation only while a link is open. In each call, the conversation appends actions to `shared`. There it can also
/// decide that the session reconnects, finishes or fails. After a decision to reconnect, the next call is `begin()` on the new link.
/// After the other decisions there is no next call.
///
/// The static properties and `restartTime` describe the differences between the protocols.
package protocol Conversation: Sendable {
    /// The protocol that the report names.
    static var updateProtocol: UpdateProtocol { get }
    /// The error code of a session whose last link ended with `LinkError.Code.timedOut`.
    static var codeAfterTimeout: UpdateError.Code { get }

    var shared: ConversationState { get set }
    /// True if the device is known to answer. If false, errors such as `noSuchDevice` end the session without a retry.
    var isDeviceReached: Bool { get }
    /// The longest duration of one restart of the device. If the link is lost after the restart, the restart window is extended by this
    /// time.
    var restartTime: Duration { get }
    /// The number of bytes of the current image that were passed to the link, up to the furthest offset. A rewind does not lower it.
    var sentOffset: Int { get }
    /// The time at which the session calls `deadlinePassed()`. It is never nil while a link is open and the task has no result yet.
    var deadline: Duration? { get }

    /// Starts the exchange on a link that has just opened: the first link or a later one.
    mutating func begin()
    /// Handles an event of the link; never `lost`.
    mutating func handle(_ event: LinkEvent)
    mutating func deadlinePassed()
    /// Discards the state of the link that has ended. This call must not append actions or decide.
    mutating func linkEnded()
}

/// The state that a conversation shares with its session.
package struct ConversationState: Sendable {
    /// The reason for a new link. It determines how the session reconnects.
    package enum Reconnection: Sendable {
        /// The link became unusable with this error. The attempt counts as failed.
        case afterLoss(LinkError)
        /// The conversation needs a link on which no late values of the old link can arrive. The attempt does not count as failed.
        case clean
        /// The device restarts. `reportsPhase` is true if the session reports `UpdatePhase.restart` at the end of the link.
        case afterRestart(reportsPhase: Bool)
    }
    /// The wait before a request is sent again to which the device answered *busy*.
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
    /// The end of the restart window. Until this time the session tries to connect again. Nil if there is no restart window; then
    /// `RetryPolicy` limits the attempts.
    package var restartDeadline: Duration?
    /// The statistics of a push; nil for other tasks.
    package var transfer: TransferReport?
    /// The limits of a push; nil for other tasks.
    package var budget: ProgressBudget?
    /// The JSON names of the bundle's fields that could not be checked against the device.
    package var unchecked: [String] = []
    /// The slot that the task `discard` erases or has erased; nil: none.
    package var erased: ErasedSlot?
    /// The partial upload that the task `discard` removes or has removed; nil: none.
    package var discarded: DeviceDescription.HeldImage?

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

    /// The time until which the device may answer *busy* to a request that is sent now.
    package var busyEnd: Duration { now + Self.busyLimit }

    /// Returns the number of the next request, modulo 256.
    package mutating func nextNumber() -> UInt8 {
        number &+= 1
        return number
    }

    /// Sets the time of a call. The budget does not count the time of the restart window, which has a time limit of its own.
    mutating func pass(to now: Duration) {
        self.now = now
        budget?.pass(to: now, counts: restartDeadline == nil)
    }

    /// Returns the actions, the decision and the progress of one call, and resets them.
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

    /// Records the duration of the transfer, and reports the end of the upload.
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
        if case .wouldUpdate = outcome { shared.transfer = nil }
        shared.decide(
            .finish(
                UpdateReport(
                    outcome: outcome, updateProtocol: Self.updateProtocol, device: device, transfer: shared.transfer,
                    unchecked: shared.unchecked, erased: shared.erased, discarded: shared.discarded)))
    }

    /// Handles the answer *busy*. Returns the time at which the request is sent again, or nil if the session has failed.
    ///
    /// - Parameters:
    ///   - request: the name of the request.
    ///   - busyEnd: the time until which the device may answer *busy*.
    package mutating func nextAttempt(_ request: String, busyEnd: Duration) -> Duration? {
        let again = shared.now + ConversationState.busyInterval
        guard again > busyEnd else { return again }
        let seconds = ConversationState.busyLimit.components.seconds
        fail(UpdateError(.deviceBusy, "the device answered \(request) with busy for \(seconds) s"))
        return nil
    }

    package mutating func fail(_ error: UpdateError) { shared.decide(.fail(error)) }

    /// Handles a command that the link refused: the session fails or reconnects.
    package mutating func refused(_ error: LinkError) {
        if error.code == .notPermitted { return fail(UpdateError(.notPermitted, error.detail)) }
        reconnect(.afterLoss(LinkError(.lost, "the device refused a request: \(error.detail)")))
    }
}
