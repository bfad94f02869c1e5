package import OTAFirmware
package import OTASigning
package import OTAUpdate

/// The host's side of the GATT OTA profile (docs/ota-profile.md, "What the host does").
///
/// On each link, the conversation first reads the device's status with a ``Survey``. ``ProfilePlan`` determines the next step of the task
/// from this status, and after each request that the device accepts. Only one request at a time waits for its answer. While a SYNC waits
/// for its answer, the conversation continues to send chunks.
package struct ProfileConversation: Conversation {
    package static let updateProtocol = UpdateProtocol.ota

    /// The state on the current link. After a decision of the conversation, the state has no meaning until the link ends.
    enum State {
        /// No link is open.
        case idle
        /// The survey reads the device's status.
        case surveying(Survey, due: Duration)
        /// A request waits for its answer.
        case asking(Exchange)
        /// The device answered the request with *busy*. The conversation sends the request again.
        case pausing(Exchange, due: Duration)
        /// The conversation sends the envelope or the image. `sync` is the SYNC that waits for its answer.
        case sending(ObjectTransfer, sync: Exchange?)
        /// The device accepted BEGIN of the encoded image at this position in the image. The conversation waits for the stream from there.
        case awaitingStream(Position, due: Duration)
        /// A dry run waits for the size of the encoded image.
        case planning(UpdatePlan, due: Duration)
    }
    /// A request that was sent.
    struct Exchange {
        let request: Request
        let tag: UInt8
        /// The time at which the conversation stops waiting for the answer.
        let due: Duration
        /// The time after which the answer *busy* fails the session.
        let busyEnd: Duration
    }
    /// The timers. The state determines which one runs (``timer``).
    private enum Timer {
        case survey, flush
        case answer(Request)
        case repetition(Exchange)
        case stream(Position)
        case dryRun(UpdatePlan)
    }

    /// The time limit for the survey (docs/ota-profile.md, "What the host does").
    private static let surveyLimit = Duration.seconds(10)
    /// The maximum of `restartTime` (docs/ota-profile.md, "What the host does").
    private static let longestRestart = Duration.seconds(180)

    package var shared: ConversationState
    let task: UpdateTask<VerifiedBundle>
    var state = State.idle
    /// The upload of a push; nil for other tasks.
    var upload: ProfileUpload?
    var memory = ProfilePlan.Memory()
    /// The device's status at the start of the current link; nil until the survey is complete.
    private(set) var snapshot: DeviceSnapshot?
    /// The number of surveys in a row that read a malformed value. The session fails at the second one.
    private var malformedSurveys = 0
    /// The partial upload that the task `discard` removes or has removed; nil: the device has not reported a partial upload.
    var discarded: DeviceDescription.HeldImage?

    /// Creates a conversation that performs an `UpdateTask`.
    ///
    /// - Throws: `unsupportedDevice` for `UpdateTask.restart` and `UpdateOptions.Ending.uploadOnly`, which the profile does not support.
    package init(_ task: UpdateTask<VerifiedBundle>) throws(UpdateError) {
        self.task = task
        switch task {
        case .push(let bundle, let options):
            guard options.ending != .uploadOnly else {
                throw UpdateError(
                    .unsupportedDevice, "the GATT OTA profile does not support an upload without a restart")
            }
            upload = ProfileUpload(bundle, options)
            shared = ConversationState(pushOf: bundle.image.count)
            shared.ledger?.open(bytes: bundle.image.count)
        case .restart:
            throw UpdateError(.unsupportedDevice, "the GATT OTA profile has no command that restarts a device")
        case .status, .confirm, .discard, .identify: shared = ConversationState()
        }
    }

    // MARK: Conversation

    /// Always true, because a GATT link opens only if the device answers.
    package var isDeviceReached: Bool { true }

    package var hasAnswered: Bool { memory.first != nil }

    /// The restart time that the device reports, but at least `RetryPolicy.longestWait` (8 s) and at most 180 s.
    package var restartTime: Duration {
        let reported = Duration.seconds((snapshot ?? memory.first)?.info.restartSeconds ?? 0)
        return min(max(reported, RetryPolicy.longestWait), Self.longestRestart)
    }

    package var recognizesCandidates: Bool { plan?.recognizesCandidates ?? false }

    package func amend(_ report: inout UpdateReport) { report.discarded = discarded }

    // MARK: Inputs

    /// Starts the survey of the device's status. If the device does not offer the profile, or if the link carries values of fewer than 20
    /// bytes, the session fails.
    package mutating func begin() {
        snapshot = nil
        do throws(FrameError) {
            let survey = try Survey(of: shared.link)
            state = .surveying(survey, due: shared.now + Self.surveyLimit)
            for command in survey.commands { submit(command) }
        } catch {
            fail(UpdateError(.unsupportedDevice, error.context))
        }
    }

    package mutating func handle(_ event: LinkEvent) {
        switch (state, event) {
        case (_, .refused(let error, _)): refused(error)
        case (.surveying(let survey, let due), .subscribed), (.surveying(let survey, let due), .value):
            surveyed(event, survey, due)
        case (.asking(let exchange), .notified(let bytes, ProfileChannel.control)),
            (.sending(_, let exchange?), .notified(let bytes, ProfileChannel.control)):
            answered(exchange, bytes)
        case (.sending(let transfer, let sync), .notified(let bytes, ProfileChannel.progress)):
            progressNotified(bytes, transfer, isAsking: sync != nil)
        default: break
        }
    }

    /// The only timer that runs; nil if no link is open.
    private var timer: (name: Timer, due: Duration)? {
        switch state {
        case .idle: nil
        case .surveying(_, let due): (.survey, due)
        case .asking(let exchange), .sending(_, let exchange?): (.answer(exchange.request), exchange.due)
        case .pausing(let exchange, let due): (.repetition(exchange), due)
        case .sending(let transfer, nil): transfer.deadline.map { (.flush, $0) }
        case .awaitingStream(let position, let due): (.stream(position), due)
        case .planning(let plan, let due): (.dryRun(plan), due)
        }
    }

    package var deadline: Duration? { timer?.due }

    package mutating func deadlinePassed() {
        switch timer?.name {
        case nil: break
        case .survey:
            let seconds = Self.surveyLimit.components.seconds
            reconnect(.afterLoss(LinkError(.timedOut, "the device did not report its status within \(seconds) s")))
        case .answer(let request):
            let seconds = request.timeLimit.components.seconds
            reconnect(.afterLoss(LinkError(.lost, "no answer to \(request.name) within \(seconds) s")))
        case .repetition(let exchange): ask(exchange.request, busyEnd: exchange.busyEnd)
        case .flush: pump()
        case .stream(let position): stopAwaiting(at: position)
        case .dryRun(let plan): finishDryRun(plan)
        }
    }

    package mutating func store(_ result: Result<EncodedImage, EncodingFailure>?, of request: EncodingRequest) {
        upload?.encoded = (request, result)
    }

    package mutating func encoded() {
        takeEncoded()
        switch state {
        case .planning(let plan, _): continueDryRun(plan)
        case .awaitingStream(let position, _): continueEncoded(at: position)
        default: requestStream()
        }
    }

    package mutating func linkEnded() {
        // Do not count a failed attempt to connect, because it does not show that the encoded image is the cause.
        let wasOpen = if case .idle = state { false } else { true }
        // Links that end before the next BEGIN of the image count, too, because the device may still decode the last chunks.
        if wasOpen, upload?.begunForm != nil, memory.apply == .none { upload?.fruitlessLinks += 1 }
        state = .idle
        if memory.apply == .asked { memory.apply = .unanswered(since: shared.now) }
    }

    mutating func fail(_ error: FrameError) { fail(UpdateError(.protocolViolation, error.context)) }

    // MARK: The survey

    private mutating func surveyed(_ event: LinkEvent, _ survey: Survey, _ due: Duration) {
        var survey = survey
        do throws(FrameError) {
            try survey.handle(event)
        } catch {
            // The value may be of another attribute: bluetoothd may have read the attribute table before the device got other firmware. A new
            // link can have a new table.
            malformedSurveys += 1
            return malformedSurveys > 1 ? fail(error) : reconnect(.afterLoss(LinkError(.lost, error.context)))
        }
        state = .surveying(survey, due: due)
        guard let snapshot = survey.snapshot else { return }
        if shared.isCandidate {
            if let difference = plan.map({ $0.difference(of: snapshot) }) ?? "is unknown" { return reject(difference) }
            acceptCandidate()
        }
        malformedSurveys = 0
        self.snapshot = snapshot
        if memory.first == nil { memory.first = snapshot }
        if upload != nil, memory.apply == .none, memory.previous == nil { report(.phase(.preflight)) }
        if let plan { perform(plan.step) }
    }

    /// The plan with the device's last status; nil before the first survey.
    var plan: ProfilePlan? {
        (snapshot ?? memory.first).map {
            ProfilePlan(task: task, device: $0, memory: memory, now: shared.now, windowEnd: shared.restartDeadline)
        }
    }
}
