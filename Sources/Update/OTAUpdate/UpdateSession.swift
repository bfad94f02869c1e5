/// One update over any number of links to a device, from the first connection to the result.
///
/// The session connects, retries with growing waits, limits the time of each step, closes links, and reconnects to a device that
/// restarts. A `Conversation` exchanges the packets on an open link. The session creates the conversation when the first link is open,
/// because only the link shows which protocols the device offers.
///
/// The states and their transitions are in docs/architecture.md, "The session".
public struct UpdateSession: UpdateLogic {
    private enum State {
        case unstarted
        case connecting(due: Duration)
        /// A link is open, and the conversation handles its events.
        case conversing
        /// The session has requested the end of the link, and waits for `linkDown`.
        case closing(due: Duration, ConversationState.Reconnection)
        /// The session has requested the end of the link to a candidate that is not the device, and waits for `linkDown`.
        case leaving(due: Duration)
        /// The session connects again after a wait.
        case waiting(until: Duration)
        case ended
    }

    /// A period in which the device is not reached: after a lost link, or during a restart. Each outage is reported and counted once.
    private enum Outage {
        case none
        /// The restart of the device was reported, and the link is still open.
        case announced
        /// The outage was reported. Its end is reported, too.
        case reported
        /// The device answered after its restart was reported, but had not restarted yet. The end of this outage is not reported, because
        /// the end of the restart was already reported.
        case silent
    }

    /// The time limit for opening a link. It is above the sum of a transport's own limits: 10 s each for scan, connection and discovery.
    private static let connectLimit = Duration.seconds(35)
    private static let closeLimit = Duration.seconds(10)

    private let choose: @Sendable (LinkProperties) throws(UpdateError) -> any Conversation
    /// Nil until the first link is open.
    package private(set) var conversation: (any Conversation)?
    private var stage = UpdateStage.searching
    private var state = State.unstarted
    private var retry = RetryPolicy()
    private var random: SplitMix64
    /// The random initial value of `ConversationState.number`. The first request has this number plus 1.
    private let initialNumber: UInt8
    private var now = Duration.zero
    private var outage = Outage.none
    private var search = CandidateSearch()
    private var actions: [UpdateAction] = []

    /// Creates a session that chooses its conversation at the first link.
    ///
    /// - Parameters:
    ///   - seed: the seed of the session's random numbers.
    ///   - choose: creates the conversation from the properties of the first link. If `choose` throws an error, the session fails with
    ///     this error.
    package init(
        seed: UInt64, choose: @escaping @Sendable (LinkProperties) throws(UpdateError) -> any Conversation
    ) {
        self.choose = choose
        random = SplitMix64(seed: seed)
        initialNumber = UInt8.random(in: 0...255, using: &random)
    }

    /// Creates a session with this conversation. The session does not check which protocols the device offers.
    ///
    /// - Parameter attempts: the maximum number of further attempts to connect, without progress, after the first failure.
    package init(_ conversation: any Conversation, seed: UInt64, attempts: Int = RetryPolicy.attempts) {
        self.init(seed: seed) { _ in conversation }
        retry = RetryPolicy(attempts: attempts)
    }

    public var deadline: Duration? {
        switch state {
        case .unstarted, .ended: nil
        case .connecting(let due), .closing(let due, _), .leaving(let due), .waiting(let due): due
        case .conversing: conversation?.deadline
        }
    }

    public mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        if hasEnded { return [] }
        self.now = now
        actions = []
        conversation?.shared.pass(to: now)
        switch event {
        case .started: connect()
        case .linkUp(let properties): linkUp(properties)
        case .linkDown(let error):
            if case .connecting = state { countMiss(error) }
            linkDown(error)
        case .link(let event):
            // A notification shows that the device is reached again. An event about the link itself shows nothing over UDP.
            if case .notified = event, case .conversing = state, search.current == nil { reachedAgain() }
            converse { $0.handle(event) }
        case .encoded(let request, let result):
            conversation?.store(result, of: request)
            converse { $0.encoded() }
        case .deadlinePassed: deadlinePassed()
        case .interrupted: fail(UpdateError(.interrupted, "stopped"))
        }
        if !hasEnded, let error = conversation?.shared.ledger?.budget.exhausted { fail(error) }
        return actions
    }

    private var hasEnded: Bool { if case .ended = state { true } else { false } }

    /// True if the device has answered in this session.
    private var isDeviceReached: Bool { conversation?.isDeviceReached == true }

    private mutating func deadlinePassed() {
        guard let deadline, deadline <= now else { return }
        switch state {
        case .unstarted, .ended: break
        case .connecting:
            linkDown(LinkError(.timedOut, "no connection within \(Self.connectLimit.components.seconds) s"))
        case .conversing: converse { $0.deadlinePassed() }
        case .closing, .leaving:
            linkDown(LinkError(.lost, "the link did not close within \(Self.closeLimit.components.seconds) s"))
        case .waiting: connect()
        }
    }

    // MARK: Connecting

    private mutating func connect() {
        if conversation == nil { actions.append(.report(.phase(.connect))) }
        state = .connecting(due: now + Self.connectLimit)
        let target = conversation?.shared.target ?? .device
        actions.append(looksForCandidates ? .find(rejected: search.rejected) : .connect(target))
    }

    /// True if the next link may be to a candidate. The first attempt in a restart window is only for the known address.
    private var looksForCandidates: Bool {
        guard let conversation, conversation.shared.restartDeadline != nil else { return false }
        return search.misses > 0 && conversation.recognizesCandidates
    }

    private mutating func linkUp(_ properties: LinkProperties) {
        guard case .connecting = state else { return }
        if let address = properties.candidate, let conversation {
            search.current = CandidateSearch.Current(address: address, conversation: conversation)
            self.conversation?.shared.isCandidate = true
        } else if conversation != nil {
            search.misses = 0
            // A link over UDP or a serial port opens even without a device. There, only an answer shows that the device is reached again.
            if !properties.preservesMessageBoundaries { reachedAgain() }
        } else {
            do throws(UpdateError) {
                var conversation = try choose(properties)
                conversation.shared.number = initialNumber
                conversation.shared.pass(to: now)
                self.conversation = conversation
            } catch {
                return fail(error)
            }
        }
        conversation?.shared.link = properties
        conversation?.shared.misses = 0
        state = .conversing
        converse { $0.begin() }
    }

    /// Reports the end of an outage, if the device has answered in this session.
    private mutating func reachedAgain() {
        guard isDeviceReached else { return }
        switch outage {
        case .none, .announced: break
        case .reported:
            outage = .none
            actions.append(.report(.reconnected))
        case .silent: outage = .none
        }
    }

    /// Calls the conversation and performs its decision. Does nothing if no link is open or the link is closing, because a closing link can
    /// still report events.
    private mutating func converse(_ call: (inout any Conversation) -> Void) {
        guard case .conversing = state, var conversation = conversation.take() else { return }
        call(&conversation)
        let turn = conversation.shared.endTurn()
        self.conversation = conversation
        if let candidate = search.current {
            if conversation.shared.isCandidate { return converse(with: candidate, turn.actions, turn.decision) }
            accept(candidate)
        }
        if stage == .searching, conversation.isDeviceReached { enter(.asking) }
        for action in turn.actions {
            if case .stage(let stage, _) = action { enter(stage) } else { actions.append(action) }
        }
        if turn.hasProgressed { retry.progressed() }
        switch turn.decision {
        case .reconnect(let reconnection):
            state = .closing(due: now + Self.closeLimit, reconnection)
            actions.append(.disconnect)
        case .finish(let report):
            state = .ended
            actions += [.disconnect, .finish(report)]
        case .fail(let error): fail(error)
        case .reject, nil: break
        }
    }

    private mutating func enter(_ stage: UpdateStage) {
        guard stage != self.stage else { return }
        self.stage = stage
        if stage == .restarting { outage = .announced }
        actions.append(.stage(stage))
    }

    private mutating func fail(_ error: UpdateError) {
        var error = error
        error.stoppedApplication = conversation?.stoppedApplication
        state = .ended
        actions += [.disconnect, .fail(error)]
    }

    // MARK: Candidates

    private mutating func accept(_ candidate: CandidateSearch.Current) {
        search.current = nil
        search.misses = 0
        actions.append(.acceptCandidate)
        reachedAgain()
        actions.append(.report(.note("after its restart, the device has the new address \(candidate.address)")))
    }

    /// Performs the decision of the conversation about a candidate that it has not accepted. An error of the candidate is not an error of
    /// the device, so it only rejects the candidate.
    private mutating func converse(
        with candidate: CandidateSearch.Current, _ actions: [UpdateAction], _ decision: ConversationState.Decision?
    ) {
        switch decision {
        case nil: return self.actions += actions
        case .reject(let reason): search.reject(candidate.address, reason)
        case .fail(let error): search.reject(candidate.address, "could not be read: \(error.context)")
        case .reconnect(.afterLoss(let error)): search.failed(candidate.address, error)
        case .reconnect, .finish: search.reject(candidate.address, "violated the protocol")
        }
        endCandidate(candidate)
        state = .leaving(due: now + Self.closeLimit)
        self.actions.append(.disconnect)
    }

    /// Continues with the conversation before the link to the candidate.
    private mutating func endCandidate(_ candidate: CandidateSearch.Current) {
        search.current = nil
        conversation = candidate.conversation
        conversation?.shared.pass(to: now)
    }

    // MARK: Lost links

    private mutating func linkDown(_ error: LinkError) {
        if let candidate = search.current {
            search.failed(candidate.address, error)
            endCandidate(candidate)
            return retry(after: error, orFailWith: .linkLost)
        }
        conversation?.linkEnded()
        switch state {
        case .unstarted, .waiting, .ended: break
        case .leaving: retry(after: error, orFailWith: .linkLost)
        case .connecting:
            if let candidate = error.candidate { search.failed(candidate, error) } else { search.missed(error) }
            if !failsAtOnce(error) { retry(after: error, orFailWith: .linkLost) }
        case .conversing: if !failsAtOnce(error) { lost(error) }
        case .closing(_, .afterLoss(let reason)): lost(reason)
        case .closing(_, .clean): state = .waiting(until: now + RetryPolicy.shortestWait)
        case .closing(_, .afterRestart(let reportsPhase)):
            if reportsPhase {
                enter(.restarting)
                actions.append(.report(.phase(.restart)))
            }
            outage = reportsPhase || outage == .announced ? .reported : .silent
            waitWithinWindow()
        }
    }

    private mutating func lost(_ error: LinkError) {
        guard let conversation else { return }
        // While a device restarts, a link over UDP or a serial port gets no answer. This silence is not a lost link.
        if conversation.shared.restartDeadline == nil || outage == .none || outage == .announced {
            self.conversation?.shared.ledger?.statistics.disconnects += 1
            if isDeviceReached {
                actions.append(.report(.linkLost(error)))
                outage = .reported
            }
        }
        if let end = conversation.shared.restartDeadline {
            self.conversation?.shared.restartDeadline = retry.lost(
                at: now, lookingUntil: end, restart: conversation.restartTime)
        }
        let code: UpdateError.Code =
            switch error.code {
            case .timedOut: .noAnswer
            case .refused: .attributeRefused
            case .inUse: .deviceInUse
            default: .linkLost
            }
        retry(after: error, orFailWith: code)
    }

    /// Counts the searches without the device. Only the transport's own error shows that it has searched for its whole time limit.
    private mutating func countMiss(_ error: LinkError) {
        let misses = conversation?.shared.misses ?? 0
        conversation?.shared.misses = error.code == .noSuchDevice ? misses + 1 : 0
    }

    /// Fails the session if a retry cannot succeed. Returns true if the session has failed.
    private mutating func failsAtOnce(_ error: LinkError) -> Bool {
        if !isDeviceReached, let code = error.withoutRetry {
            fail(UpdateError(code, error.detail, remedy: error.remedy))
            return true
        }
        return false
    }

    private mutating func retry(after error: LinkError, orFailWith code: UpdateError.Code) {
        // In the restart window, the time is limited, and the number of attempts is not limited. The window begins when the request to
        // restart or to confirm is sent, because the link can be lost before the answer arrives.
        if let end = conversation?.shared.restartDeadline {
            guard now < end else {
                // The device is back, but it refuses each request, or its bond is lost. So it did return.
                if error.code == .refused || error.code == .notPermitted || error.remedy == .removeBond {
                    let code = error.code == .refused ? UpdateError.Code.attributeRefused : .notPermitted
                    return fail(UpdateError(code, error.detail, remedy: error.remedy))
                }
                switch conversation?.resultWithoutReturn() {
                case .success(let report)?:
                    state = .ended
                    return actions += [.disconnect, .finish(report)]
                case .failure(let error)?: return fail(error)
                case nil:
                    return fail(
                        UpdateError(.didNotReturn, "the device did not return after its restart\(search.summary)"))
                }
            }
            return waitWithinWindow()
        }
        var wait = retry.failed(random: &random)
        if wait == nil, conversation?.fallBack() == true {
            retry.progressed()
            wait = retry.failed(random: &random)
        }
        guard let wait else {
            let isSilent = conversation.map { !$0.hasAnswered } ?? false
            return fail(
                UpdateError(
                    conversation == nil ? .noSuchDevice : code, error.detail, isSilent: isSilent, remedy: error.remedy))
        }
        state = .waiting(until: now + wait)
        if !isDeviceReached { actions += [.report(.connectionFailed(error)), .stage(.searching, after: error)] }
    }

    private mutating func waitWithinWindow() {
        state = .waiting(until: now + retry.failedWithinTime(random: &random))
    }
}
