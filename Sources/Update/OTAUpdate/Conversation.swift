package import OTAFirmware

/// The requests and answers of one protocol over the links of a session.
///
/// `UpdateSession` opens and closes the links. The conversation exchanges the packets on an open link.
///
/// In each call, the conversation appends its actions to `shared`. The conversation can also decide that the session reconnects, finishes
/// or fails. After a decision to reconnect, the session calls `linkEnded()`, and calls `begin()` when the new link is open. After a
/// decision to finish or to fail, the session does not call the conversation again.
package protocol Conversation: Sendable {
    /// The protocol of this conversation. Each report of the session names it (`UpdateReport.updateProtocol`).
    static var updateProtocol: UpdateProtocol { get }

    var shared: ConversationState { get set }
    /// True if it is certain that the device answers. If false, errors such as `noSuchDevice` end the session without a retry.
    var isDeviceReached: Bool { get }
    /// True if the device has answered a request in this session.
    var hasAnswered: Bool { get }
    /// The maximum duration of one restart of the device.
    ///
    /// If a link is lost while the session waits for a restart, the device may have restarted a second time. So the session extends the
    /// restart window: it calls `RetryPolicy.lost(at:lookingUntil:restart:)` with this duration.
    var restartTime: Duration { get }
    /// True if the device restarts, and its new state shows that it is the same device even if its address is new.
    ///
    /// The session then also opens links to candidates (`UpdateAction.find`). On such a link, `ConversationState.isCandidate` is true. The
    /// conversation must first read the candidate's state. It then calls `acceptCandidate()` or `reject(_:)`. Before, it must not change the
    /// candidate.
    var recognizesCandidates: Bool { get }
    /// The time at which the session calls `deadlinePassed()`. While a link is open and the task has no result, this time is never nil, so
    /// that every wait has a limit.
    var deadline: Duration? { get }

    /// Starts the exchange on a link that has just opened.
    mutating func begin()
    /// Handles an event of the open link. For the end of the link, the session calls `linkEnded()` instead.
    mutating func handle(_ event: LinkEvent)
    mutating func deadlinePassed()
    /// Discards the state of the link that has ended. The session also calls this method after each failed attempt to connect.
    ///
    /// In this method, the conversation must not append actions or make a decision.
    mutating func linkEnded()
    /// Stores the result of the last action `encode`. `result` is nil if the runner has no encoder.
    ///
    /// A result can arrive while no link is open. In this method, the conversation must not append actions or make a decision.
    mutating func store(_ result: Result<EncodedImage, EncodingFailure>?, of request: EncodingRequest)
    /// Handles a result of the encoder that was stored. The session calls this method only while a link is open.
    mutating func encoded()
    /// Selects a simpler transfer, such as a plain image instead of an encoded image. The session calls this method when no attempt to
    /// connect is left.
    ///
    /// Returns true only if a simpler transfer exists, and the last links were lost during the current transfer without progress. The
    /// session then connects again.
    ///
    /// In this method, the conversation must not append actions or make a decision.
    mutating func fallBack() -> Bool
    /// Returns the result of the task if the device did not return within the restart window; nil: the session fails with `didNotReturn`.
    func resultWithoutReturn() -> Result<UpdateReport, UpdateError>?
    /// The application of a device that this task has restarted into its firmware loader; nil: the application runs, or its state is unknown.
    var stoppedApplication: UpdateError.StoppedApplication? { get }
    /// Adds the values that only this protocol has to the report of a finished task.
    func amend(_ report: inout UpdateReport)
}

extension Conversation {
    package var hasAnswered: Bool { isDeviceReached }
    package var recognizesCandidates: Bool { false }
    package mutating func store(_ result: Result<EncodedImage, EncodingFailure>?, of request: EncodingRequest) {}
    package mutating func encoded() {}
    package mutating func fallBack() -> Bool { false }
    package func resultWithoutReturn() -> Result<UpdateReport, UpdateError>? { nil }
    package var stoppedApplication: UpdateError.StoppedApplication? { nil }
    package func amend(_ report: inout UpdateReport) {}
}

/// The state that a conversation shares with its session.
package struct ConversationState: Sendable {
    /// The reason for a new link. It determines how the session reconnects.
    package enum Reconnection: Sendable {
        /// The link became unusable because of this error. The session counts a failed attempt.
        case afterLoss(LinkError)
        /// The link works, but the device may keep an incomplete packet until the link ends. The session does not count a failed attempt.
        case clean
        /// The device restarts. If `reportsPhase` is true, the session reports `UpdatePhase.restart` when the link has ended.
        case afterRestart(reportsPhase: Bool)
    }
    /// The wait after the answer *busy*, before the conversation sends the request again.
    package static let busyInterval = Duration.seconds(2)
    static let busyLimit = Duration.seconds(90)

    enum Decision: Sendable {
        case reconnect(Reconnection)
        case finish(UpdateReport)
        case fail(UpdateError)
        /// The candidate is not the device, for this reason.
        case reject(String)
    }

    /// The time since the start of the session.
    package internal(set) var now = Duration.zero
    /// The properties of the open link; if no link is open, the properties of the last link.
    package internal(set) var link = LinkProperties(channels: [], maximumValueLength: 0)
    /// True if the open link is to a candidate (`LinkProperties.candidate`) that the conversation has not accepted.
    package internal(set) var isCandidate = false
    /// The end of the restart window. Until this time, the session tries to connect to the restarting device. The number of attempts is not
    /// limited.
    ///
    /// Nil if the session does not wait for a restart. In this case, `RetryPolicy` limits the number of attempts.
    package var restartDeadline: Duration?
    /// The target of the next links.
    package var target = LinkTarget.device
    /// The number of searches in a row, up to now, in which the transport has looked for the device and not seen it. An attempt to connect
    /// that fails for another reason is no search.
    package internal(set) var misses = 0
    /// The offsets, the statistics and the limits of a push; nil for other tasks.
    package var ledger: TransferLedger?

    /// The number of the last request. Before the first request, this is a random number.
    var number: UInt8 = 0
    var actions: [UpdateAction] = []
    var decision: Decision?
    var hasProgressed = false

    /// - Parameter imageBytes: the size of all images of a push, in bytes; nil: the task is not a push.
    package init(pushOf imageBytes: Int? = nil) { ledger = imageBytes.map { TransferLedger(imageBytes: $0) } }

    /// The time until which the device may answer *busy* to a request that is sent now.
    package var busyEnd: Duration { now + Self.busyLimit }

    /// Returns the number of the next request, modulo 256.
    package mutating func nextNumber() -> UInt8 {
        number &+= 1
        return number
    }

    /// Sets the time of the current call. The budget does not count the time in the restart window, because the restart window has its own
    /// time limit.
    mutating func pass(to now: Duration) {
        self.now = now
        ledger?.budget.pass(to: now, counts: restartDeadline == nil)
    }

    /// Returns the actions, the decision and the progress of the current call, and removes them from the state.
    mutating func endTurn() -> (actions: [UpdateAction], decision: Decision?, hasProgressed: Bool) {
        defer { (actions, decision, hasProgressed) = ([], nil, false) }
        return (actions, decision, hasProgressed)
    }

    mutating func decide(_ decision: Decision) { self.decision = self.decision ?? decision }

    /// Revokes the decision of the current call to fail, and returns its error; nil: the conversation has not decided to fail.
    package mutating func takeFailure() -> UpdateError? {
        guard case .fail(let error)? = decision else { return nil }
        decision = nil
        return error
    }
}

extension Conversation {
    /// True if the conversation has already made a decision in the current call.
    package var hasDecided: Bool { shared.decision != nil }

    package mutating func submit(_ command: LinkCommand) { shared.actions.append(.link(command)) }

    /// Records the duration of the transfer, and reports the end of the upload. Does nothing if this session sent no image byte.
    package mutating func uploaded() {
        let now = shared.now
        if let statistics = shared.ledger?.uploaded(at: now) { report(.uploaded(statistics)) }
    }

    /// Requests the image of the push in encoded form.
    package mutating func encode(_ request: EncodingRequest) { shared.actions.append(.encode(request)) }

    package mutating func report(_ progress: UpdateProgress) { shared.actions.append(.report(progress)) }

    /// Enters a stage. Call this before the first action of the stage. The session ignores the call if this is the current stage.
    package mutating func enter(_ stage: UpdateStage) { shared.actions.append(.stage(stage)) }

    /// Resets the count of failed attempts to connect.
    package mutating func progressed() { shared.hasProgressed = true }

    package mutating func reconnect(_ reconnection: ConversationState.Reconnection) {
        shared.decide(.reconnect(reconnection))
    }

    package mutating func finish(_ outcome: UpdateReport.Outcome, _ device: DeviceDescription) {
        shared.decide(.finish(finalReport(outcome, device)))
    }

    package func finalReport(_ outcome: UpdateReport.Outcome, _ device: DeviceDescription) -> UpdateReport {
        var report = UpdateReport(outcome: outcome, updateProtocol: Self.updateProtocol, device: device)
        if case .wouldUpdate = outcome {} else { report.transfer = shared.ledger?.statistics }
        amend(&report)
        return report
    }

    /// Handles the answer *busy* to a request. Fails the session if the request cannot be sent again before `busyEnd`.
    ///
    /// - Parameters:
    ///   - request: the name of the request, for the error message.
    ///   - busyEnd: the time until which the device may answer *busy*.
    /// - Returns: the time at which the conversation sends the request again; nil: the session has failed.
    package mutating func nextAttempt(_ request: String, busyEnd: Duration) -> Duration? {
        let again = shared.now + ConversationState.busyInterval
        guard again > busyEnd else { return again }
        let seconds = ConversationState.busyLimit.components.seconds
        fail(UpdateError(.deviceBusy, "the device answered \(request) with busy for \(seconds) s"))
        return nil
    }

    package mutating func fail(_ error: UpdateError) { shared.decide(.fail(error)) }

    /// Continues the session with the candidate of the open link, because the candidate is the restarted device.
    package mutating func acceptCandidate() { shared.isCandidate = false }

    /// Leaves the candidate of the open link alone, because it is another device.
    ///
    /// - Parameter reason: the difference, as the end of a sentence that begins with the candidate's address.
    package mutating func reject(_ reason: String) { shared.decide(.reject(reason)) }

    /// Handles the error of a command. If the device demands pairing, the session fails. After all other errors, the session reconnects.
    package mutating func refused(_ error: LinkError) {
        switch error.code {
        case .notPermitted: fail(UpdateError(.notPermitted, error.detail, remedy: error.remedy))
        case .inUse: reconnect(.afterLoss(error))
        case .refused: reconnect(.afterLoss(LinkError(.refused, "the device refused a request: \(error.detail)")))
        default: reconnect(.afterLoss(LinkError(.lost, "a request failed: \(error.detail)")))
        }
    }
}
