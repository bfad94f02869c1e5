import OTAFirmware
package import OTASigning
package import OTAUpdate

/// The host's side of the GATT OTA profile (docs/ota-profile.md, "What the host does").
///
/// On each link, the conversation first reads the device's status with a ``Survey``. It then continues the `UpdateTask` from this status.
/// Only one request at a time waits for its answer. While a SYNC waits for its answer, the conversation continues to send chunks.
package struct ProfileConversation: Conversation {
    package static let updateProtocol = UpdateProtocol.ota

    private enum State {
        /// The conversation expects nothing from the device.
        case idle
        /// The survey reads the device's status. If the survey is not complete at the time `due`, the conversation requests a new link.
        case surveying(Survey, due: Duration)
        /// The conversation waits for the answer to a request, or for the acknowledgment of chunks.
        case exchanging
        /// The device answered the request with *busy*. The conversation sends the request again at the time `until`. `busyEnd` is the
        /// time after which another answer *busy* fails the session.
        case pausing(until: Duration, Request, busyEnd: Duration)
    }
    /// A request that waits for its answer.
    private struct Exchange {
        let request: Request
        let tag: UInt8
        /// The time at which the conversation stops waiting for the answer.
        let due: Duration
        /// The time after which the answer *busy* fails the session.
        let busyEnd: Duration
    }

    /// The time limit for the survey (docs/ota-profile.md, "What the host does").
    private static let surveyLimit = Duration.seconds(10)
    /// The maximum of `restartTime` (docs/ota-profile.md, "What the host does").
    private static let longestRestart = Duration.seconds(180)

    package var shared: ConversationState
    let task: UpdateTask<VerifiedBundle>
    var push: Push?
    private var state = State.idle
    private var exchange: Exchange?
    /// The transfer of the envelope or the image; nil if no transfer is in progress.
    var transfer: ObjectTransfer?
    /// The device's position in the answer to BEGIN of an encoded image, while the conversation waits for the stream from this position.
    /// Nil at all other times. At the time `due`, the conversation stops waiting for the stream, and sends the image plain.
    var awaited: (position: Position, due: Duration)?
    /// The plan of a dry run, while the conversation waits for the size of the encoded image. Nil at all other times. At the time `due`,
    /// the conversation stops waiting, and ends the dry run with this plan.
    var planned: (plan: UpdatePlan, due: Duration)?
    /// The device's status at the start of the current link; nil until the survey is complete.
    private(set) var snapshot: DeviceSnapshot?
    /// The device's status at the start of the first link; nil until the first survey is complete.
    private(set) var first: DeviceSnapshot?
    /// The number of surveys in a row that read a malformed value. The session fails at the second one.
    private var malformedSurveys = 0
    /// True after the conversation sent CONFIRM, or sent DISCARD during a trial.
    ///
    /// The device may have performed the request even if no answer arrived.
    var hasEndedTrial = false
    /// The number of CONFIRM requests that were sent.
    var confirms = 0

    /// Creates a conversation that performs an `UpdateTask`.
    ///
    /// - Parameter namedBases: the ids of the bases whose files the user named. If such a base is not offered, a note can report the
    ///   reason.
    /// - Throws: `unsupportedDevice` for `UpdateTask.restart` and `UpdateOptions.Ending.uploadOnly`, which the profile does not support.
    package init(_ task: UpdateTask<VerifiedBundle>, namedBases: Set<Int> = []) throws(UpdateError) {
        self.task = task
        if case .restart = task {
            throw UpdateError(.unsupportedDevice, "the GATT OTA profile has no command that restarts a device")
        }
        guard case .push(let bundle, let options) = task else {
            shared = ConversationState()
            return
        }
        guard options.ending != .uploadOnly else {
            throw UpdateError(
                .unsupportedDevice, "the GATT OTA profile does not support an upload without a restart")
        }
        push = Push(bundle, options, namedBases: namedBases)
        shared = ConversationState(pushOf: bundle.image.count)
        shared.transfer?.imageBytes = bundle.image.count
    }

    package var sentOffset: Int {
        if let transfer, transfer.object == .image { return transfer.sentPlainOffset }
        return push?.sentOffset ?? 0
    }

    // MARK: Conversation

    /// Always true, because a GATT link opens only if the device answers.
    package var isDeviceReached: Bool { true }

    package var hasAnswered: Bool { first != nil }

    /// The restart time that the device reports, but at least `RetryPolicy.longestWait` (8 s) and at most 180 s.
    package var restartTime: Duration {
        let reported = Duration.seconds((snapshot ?? first)?.info.restartSeconds ?? 0)
        return min(max(reported, RetryPolicy.longestWait), Self.longestRestart)
    }

    package var deadline: Duration? {
        switch state {
        case .idle: nil
        case .surveying(_, let due), .pausing(let due, _, _): due
        case .exchanging: [exchange?.due, transfer?.deadline, awaited?.due, planned?.due].compactMap { $0 }.min()
        }
    }

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
        switch event {
        case .subscribed, .value: surveyed(event)
        case .notified(let bytes, ProfileChannel.control): answered(bytes)
        case .notified(let bytes, ProfileChannel.progress): progressNotified(bytes)
        case .refused(let error, _): refused(error)
        case .notified, .written: break
        }
    }

    package mutating func deadlinePassed() {
        switch state {
        case .idle: break
        case .surveying:
            let seconds = Self.surveyLimit.components.seconds
            reconnect(.afterLoss(LinkError(.timedOut, "the device did not report its status within \(seconds) s")))
        case .pausing(_, let request, let busyEnd): ask(request, busyEnd: busyEnd)
        case .exchanging:
            if let exchange, exchange.due <= shared.now {
                reconnect(afterTimeout: exchange.request.timeLimit, "no answer to \(exchange.request.name)")
            } else if let awaited, awaited.due <= shared.now {
                stopAwaiting(at: awaited.position)
            } else if let planned, planned.due <= shared.now {
                finishDryRun(planned.plan)
            } else {
                pump()
            }
        }
    }

    private mutating func reconnect(afterTimeout limit: Duration, _ context: String) {
        reconnect(.afterLoss(LinkError(.lost, "\(context) within \(limit.components.seconds) s")))
    }

    package mutating func linkEnded() {
        // Do not count a failed attempt to connect, because it does not show that the encoded image is the cause.
        let wasOpen = if case .idle = state { false } else { true }
        state = .idle
        exchange = nil
        if let transfer, transfer.object == .image { push?.note(transfer) }
        // Links that end before the next BEGIN of the image count, too, because the device may still decode the last chunks.
        if wasOpen, push?.begunForm != nil, push?.apply == Push.ApplyState.none { push?.fruitlessLinks += 1 }
        transfer = nil
        awaited = nil
        planned = nil
        if push?.apply == .asked { push?.apply = .unanswered(since: shared.now) }
    }

    mutating func fail(_ error: FrameError) { fail(UpdateError(.protocolViolation, error.context)) }

    // MARK: The survey

    private mutating func surveyed(_ event: LinkEvent) {
        guard case .surveying(var survey, let due) = state else { return }
        do throws(FrameError) {
            switch event {
            case .subscribed(let channel): survey.subscribed(to: channel)
            case .value(let bytes, let channel): try survey.read(bytes, from: channel)
            default: break
            }
        } catch {
            // The value may be of another attribute: bluetoothd may have read the attribute table before the device got other firmware. A new
            // link can have a new table.
            malformedSurveys += 1
            return malformedSurveys > 1 ? fail(error) : reconnect(.afterLoss(LinkError(.lost, error.context)))
        }
        state = .surveying(survey, due: due)
        guard let snapshot = survey.snapshot, isDevice(snapshot) else { return }
        malformedSurveys = 0
        self.snapshot = snapshot
        if first == nil { first = snapshot }
        state = .exchanging
        switch task {
        case .push: if push?.apply == Push.ApplyState.none { beginPush(snapshot) } else { checkRestart(snapshot) }
        case .status: finish(.done, snapshot.description)
        case .confirm: beginConfirm(snapshot)
        case .discard: beginDiscard(snapshot)
        case .restart: break
        case .identify(let seconds): ask(.identify(seconds: seconds))
        }
    }

    // MARK: Requests and answers

    /// True if a request waits for its answer.
    var isAsking: Bool { exchange != nil }

    mutating func ask(_ request: Request) { ask(request, busyEnd: shared.busyEnd) }

    private mutating func ask(_ request: Request, busyEnd: Duration) {
        let tag = shared.nextNumber()
        state = .exchanging
        exchange = Exchange(request: request, tag: tag, due: shared.now + request.timeLimit, busyEnd: busyEnd)
        submit(.write(request.bytes(tag: tag), ProfileChannel.control))
    }

    private mutating func answered(_ bytes: [UInt8]) {
        guard let exchange else { return }
        do throws(FrameError) {
            guard let answer = try ControlAnswer(to: exchange.request, tag: exchange.tag, parsing: bytes) else {
                return
            }
            self.exchange = nil
            switch answer.status {
            case .ok: accepted(exchange.request, answer.position)
            case .busy: busy(exchange)
            default: declined(exchange.request, answer.status)
            }
        } catch {
            fail(error)
        }
    }

    private mutating func busy(_ exchange: Exchange) {
        guard let again = nextAttempt(exchange.request.name, busyEnd: exchange.busyEnd) else { return }
        // The answer *busy* to a SYNC shows that another host now uses the device. This host needs a new link before it can continue
        // the transfer, so it does not repeat the SYNC.
        if case .sync = exchange.request {
            return reconnect(.afterLoss(LinkError(.lost, "the device is busy with another host")))
        }
        state = .pausing(until: again, exchange.request, busyEnd: exchange.busyEnd)
    }

    private mutating func accepted(_ request: Request, _ position: Position?) {
        switch request {
        case .begin(let object, _, let from, _):
            if let position { began(object, from: from, at: position) }
        case .beginEncoded(let from, _):
            if let position { beganEncoded(from: from, at: position) }
        case .sync:
            if let position { flushed(to: position) }
        case .finish(.envelope): envelopeAccepted()
        case .finish(.image): imageVerified()
        case .apply: applied()
        case .confirm: confirmed()
        case .discard: discarded()
        case .identify: if let snapshot { finish(.done, snapshot.description) }
        }
    }

    private mutating func declined(_ request: Request, _ status: DeviceStatus) {
        switch (request, status) {
        case (.finish(.image), .digestMismatch): digestMismatched()
        case (.beginEncoded(let from, _), _): encodingRefused(from: from, status)
        // The device could not decode the encoded image. The answer to FINISH has the status *badState* if the device has received the
        // whole stream, but does not have the whole image. The answer to SYNC has the status *badState*, because the device has left the
        // state *image*. The profile does not permit *notDecoded* in this answer, but the host accepts it with the same meaning.
        case (.finish(.image), .badState) where push?.isEncoded == true,
            (.sync, .badState) where transfer?.positions != nil && push?.hasFlashFailed == false,
            (.sync, .notDecoded) where transfer?.positions != nil:
            notDecoded()
        // After a flash error, the device leaves the state *image*. It then answers a SYNC with one of these statuses.
        case (.sync, .badState), (.sync, .flashFailed):
            mismatched(transfer?.object ?? .image, as: .flashFailed, "the device's flash failed")
        case (.apply(permanent: true), .refusedByPolicy):
            fail(UpdateError(.trialAvailable, "the device refuses to install an image without a trial"))
        case (.identify, .unknownOpcode): fail(UpdateError(.unsupportedDevice, "the device cannot blink"))
        default:
            fail(UpdateError(status.error, "the device refused \(request.name): \(status.meaning)"))
        }
    }
}
