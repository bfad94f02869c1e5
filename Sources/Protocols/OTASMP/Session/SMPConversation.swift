import OTAFirmware
package import OTAUpdate

/// The host's side of SMP, the protocol of MCUmgr (docs/smp.md).
///
/// On each link, the conversation subscribes and requests the image list. `SMPPlan` determines the next step of a push from this list, so a
/// push also continues after a lost link. The features of the device are requested once, because a new link does not change them.
package struct SMPConversation: Conversation {
    package static let updateProtocol = UpdateProtocol.smp

    private enum State {
        /// The conversation expects nothing from the device.
        case idle
        /// The conversation waits for the answer to its subscription, at the latest until `due`.
        case subscribing(due: Duration)
        /// The conversation waits for answers to requests or chunks.
        case exchanging
        /// The conversation waits until this time, and then performs the step.
        case pausing(until: Duration, then: Step)
    }
    /// The step that follows a pause.
    enum Step {
        /// Send the request. The device may answer *busy* until `busyEnd`. After this time, the answer *busy* fails the session.
        case ask(SMPRequest, busyEnd: Duration)
        /// Send the next chunks of the upload.
        case upload
        /// Send the echo requests of a test (``SMPProbe``).
        case probe
    }
    /// A request that waits for its answer.
    private struct Exchange {
        let request: SMPRequest
        /// The sequence number. All attempts have the same number, so that a late answer to an earlier attempt is also accepted.
        let sequence: UInt8
        /// The time at which the first attempt was sent.
        let since: Duration
        /// The time until which the device may answer *busy*. After this time, the answer *busy* fails the session.
        let busyEnd: Duration
        /// The number of this attempt; the first attempt has the number 1.
        var attempt = 0
        /// The time at which the conversation stops waiting for the answer to this attempt.
        var due = Duration.zero
    }
    /// The state of a requested restart of the device.
    enum Restart: Equatable {
        /// No restart was requested.
        case none
        /// The restart request was sent, and the conversation waits for the answer.
        case asked
        /// The device accepted the restart request, or did not answer. `since` is the end of the wait for the answer.
        case under(since: Duration)
    }

    /// The time limit for the answer to the subscription.
    private static let subscribeLimit = Duration.seconds(10)
    /// The session fails when it has received this number of malformed packets.
    private static let mostViolations = 3

    package var shared: ConversationState
    let task: UpdateTask<[SMPImage]>
    var push: SMPPush?
    private var state = State.idle
    /// The requests that wait for their answers, in the order of sending.
    ///
    /// Several requests wait at the same time only if they are queries to a device with several buffers, or echo requests of a test.
    private var exchanges: [Exchange] = []
    /// The current upload; nil if no upload is in progress on this link.
    var upload: SMPUpload?
    private var assembler = SMPFrameAssembler()
    /// Whether the device has notified a value on the current link.
    private var hasNotified = false
    /// The SMP version of the requests.
    private var version = SMPFrame.Version.second
    var device = SMPDevice()
    /// True from the first query that precedes an upload until all these queries have been answered.
    var isSurveying = false
    /// The current test with echo requests; nil if no test waits for an answer.
    var probe: SMPProbe?
    /// True if an echo of the current test was missing or refused.
    var isProbeMissingEcho = false
    /// The queries that the conversation has not sent yet, in the order of sending.
    var questions: [SMPRequest] = []
    /// The image list of the current link. Nil if no list has arrived, or if the images on the device may have changed since the last list.
    var list: SMPImageList?
    /// The number of malformed packets in this session.
    private var violations = 0
    var restart = Restart.none
    /// The number of restart requests that were sent.
    var restarts = 0
    /// True after the first confirm request was sent. The device may have confirmed the image even if no answer arrived.
    var hasConfirmed = false
    /// The number of requests to mark or confirm an image that were sent in this session.
    var marks = 0
    /// The first image list of the session; nil if no list has arrived.
    var first: SMPImageList?
    /// The JSON names of the bundle's fields that could not be checked against the device.
    var unchecked: [String] = []
    /// The slot that the task `discard` erases or has erased. Nil if the task has requested no erase.
    var erasedSlot: ErasedSlot?
    /// The image numbers of the push whose running image the device does not list.
    var unlistedImages: [Int] = []

    /// - Parameter namedBases: the ids of the bases that the user named. For the first of these bases, a note reports that SMP does not
    ///   use bases.
    /// - Throws: `unsupportedDevice` for `UpdateTask.identify`, which SMP does not support.
    package init(_ task: UpdateTask<[SMPImage]>, namedBases: Set<Int> = []) throws(UpdateError) {
        self.task = task
        switch task {
        case .push(let images, let options):
            push = SMPPush(images, options)
            push?.unusedBase = options.bases.first { namedBases.contains($0.id) }
            shared = ConversationState(pushOf: images.reduce(0) { $0 + $1.bytes.count })
        case .status, .confirm, .discard, .restart: shared = ConversationState()
        case .identify: throw UpdateError(.unsupportedDevice, "SMP has no command that makes a device blink")
        }
    }

    // MARK: Conversation

    /// True after the first image list. An open link does not show that a device answers, because UDP has no connections.
    package var isDeviceReached: Bool { first != nil }

    /// A fixed time of 60 s, because SMP does not report the restart time. A bootloader can swap 1 MB in 60 s.
    package var restartTime: Duration { .seconds(60) }

    package var deadline: Duration? {
        switch state {
        case .idle: nil
        case .subscribing(let due), .pausing(let due, _): due
        case .exchanging: (exchanges.map(\.due) + [upload?.deadline].compactMap { $0 }).min()
        }
    }

    package mutating func begin() {
        device.connected(over: shared.link, valueLength: valueLength)
        guard shared.link.channels.contains(SMPChannel.value) else {
            return fail(UpdateError(.unsupportedDevice, "the device does not offer SMP, MCUmgr's protocol"))
        }
        assembler = SMPFrameAssembler()
        hasNotified = false
        list = nil
        questions = []
        isSurveying = false
        state = .subscribing(due: shared.now + Self.subscribeLimit)
        submit(.subscribe(SMPChannel.value))
    }

    package mutating func handle(_ event: LinkEvent) {
        switch event {
        case .subscribed(SMPChannel.value):
            guard case .subscribing = state else { return }
            if first == nil { questions = firstQuestions.filter { !device.unanswered.contains($0) } }
            askNext()
        case .notified(let bytes, SMPChannel.value): notified(bytes)
        // While the conversation waits for answers, the device can only refuse the write with response of `askAgain`. A device may accept
        // only writes without response, so all errors except a demand for pairing are ignored.
        case .refused(let error, _): if !isExchanging || error.code == .notPermitted { refused(error) }
        case .subscribed, .value, .notified, .written: break
        }
    }

    package mutating func deadlinePassed() {
        switch state {
        case .idle: break
        case .subscribing:
            let seconds = Self.subscribeLimit.components.seconds
            breakLink(
                LinkError(.timedOut, "the device did not accept the subscription within \(seconds) s"))
        case .pausing(_, .ask(let request, let busyEnd)): ask(request, busyEnd: busyEnd)
        case .pausing(_, .upload): pump()
        case .pausing(_, .probe): sendProbe()
        case .exchanging:
            if let index = exchanges.firstIndex(where: { $0.due <= shared.now }) {
                unanswered(exchanges.remove(at: index))
            } else {
                chunkUnanswered()
            }
        }
    }

    package mutating func linkEnded() {
        state = .idle
        exchanges = []
        probe = nil
        upload = nil
        if restart == .asked { restart = .under(since: shared.now) }
    }

    package func amend(_ report: inout UpdateReport) {
        (report.unchecked, report.erased, report.unlistedImages) = (unchecked, erasedSlot, unlistedImages)
    }

    /// Closes a link that cannot be used any more. The session then reconnects, as after a lost link.
    mutating func breakLink(_ reason: LinkError) { reconnect(.afterLoss(reason)) }

    mutating func fail(_ error: SMPFrameError) { fail(UpdateError(.protocolViolation, error.context)) }

    mutating func pause(_ duration: Duration, then step: Step) {
        state = .pausing(until: shared.now + duration, then: step)
    }

    mutating func awaitAnswers() { state = .exchanging }

    // MARK: Requests

    /// The number of requests that wait for their answers.
    var asked: Int { exchanges.count }

    mutating func ask(_ request: SMPRequest) {
        let busyEnd = request.isOptional ? shared.now + Self.longestOptionalBusy : shared.busyEnd
        ask(request, busyEnd: min(busyEnd, shared.busyEnd))
    }

    mutating func ask(_ request: SMPRequest, after pause: Duration) {
        self.pause(pause, then: .ask(request, busyEnd: shared.busyEnd))
    }

    private mutating func ask(_ request: SMPRequest, busyEnd: Duration) {
        if let error = excess(of: request) { return breakLink(error) }
        let sequence = shared.nextNumber()
        askAgain(Exchange(request: request, sequence: sequence, since: shared.now, busyEnd: busyEnd))
    }

    private var isExchanging: Bool { if case .exchanging = state { true } else { false } }

    /// Sends the next attempt of a request.
    ///
    /// A device that demands a bond drops a write without response, and reports no error. So if the device has sent nothing on this link,
    /// the last attempt is a write with response. The transport then pairs, or reports that the device demands pairing.
    private mutating func askAgain(_ exchange: Exchange) {
        state = .exchanging
        var exchange = exchange
        exchange.attempt += 1
        exchange.due = shared.now + timeLimit(of: exchange.request, attempt: exchange.attempt)
        let demandsResponse =
            !hasNotified && exchange.attempt == exchange.request.attempts && !shared.link.preservesMessageBoundaries
        send(exchange.request, sequence: exchange.sequence, demandsResponse: demandsResponse)
        exchanges.append(exchange)
    }

    /// Returns an error if the request must fit in one value and does not fit; nil if the request may be sent.
    ///
    /// If the device does not reassemble packets, each packet must fit in one value. After the error, the caller reconnects, because the
    /// next link may have longer values.
    ///
    /// If it is unknown whether the device reassembles packets, the request is normally sent in several values. The function then returns
    /// the error only if an earlier link had values that were long enough, because a new link may have such values again.
    ///
    /// A query never causes the error: the image list's request fits into every value, and the others are not necessary for the session.
    private func excess(of request: SMPRequest) -> LinkError? {
        guard device.reassembles != true, !request.isQuestion else { return nil }
        let length = request.frame(sequence: 0, version: version).bytes.count
        guard length > valueLength, device.reassembles == false || length <= device.longestValue else { return nil }
        return LinkError(
            .lost,
            "the link carries values of \(valueLength) bytes and the request has \(length); the device may not reassemble packets",
            remedy: .longerValues)
    }

    /// Sends a request with the next sequence number.
    ///
    /// - Returns: the sequence number of the request.
    mutating func send(_ request: SMPRequest) -> UInt8 {
        let sequence = shared.nextNumber()
        send(request, sequence: sequence)
        return sequence
    }

    /// Sends a request with this sequence number.
    ///
    /// A packet that is longer than one value is split into several values. No other packet is sent between these values.
    private mutating func send(_ request: SMPRequest, sequence: UInt8, demandsResponse: Bool = false) {
        let bytes = request.frame(sequence: sequence, version: version).bytes
        let length = max(1, valueLength)
        let values = stride(from: 0, to: bytes.count, by: length).map { Array(bytes[$0...].prefix(length)) }
        if demandsResponse, values.count == 1 {
            submit(.write(values[0], SMPChannel.value))
        } else {
            submit(.send(values, SMPChannel.value))
        }
    }

    // MARK: Answers

    private mutating func notified(_ bytes: [UInt8]) {
        hasNotified = true
        do throws(SMPFrameError) {
            for frame in try assembler.take(bytes) {
                guard listensToFrames else { return }
                try take(frame)
            }
        } catch {
            // The first two malformed packets only close the link, because they can be the rest of a packet whose start was lost.
            violations += 1
            guard violations < Self.mostViolations else { return fail(error) }
            breakLink(LinkError(.lost, error.context))
        }
    }

    private var listensToFrames: Bool {
        switch state {
        case .exchanging, .pausing(_, .upload): !hasDecided
        case .idle, .subscribing, .pausing: false
        }
    }

    /// Handles a received packet. Ignores a packet that answers no open request and no chunk in flight, such as a late answer.
    private mutating func take(_ frame: SMPFrame) throws(SMPFrameError) {
        if let upload, upload.awaits(frame.sequence), frame.group == SMPRequest.imageGroup, frame.command == 1 {
            let answer = try SMPAnswer(parsing: frame.body)
            if fallsBack(answer, frame) { return reopenUpload() }
            return chunkAnswered(frame.sequence, answer)
        }
        guard let index = exchanges.firstIndex(where: { $0.request.isAnswered(by: frame, sequence: $0.sequence) })
        else { return }
        let request = exchanges[index].request
        guard let answer = try answer(to: request, in: frame) else {
            exchanges.remove(at: index)
            return notReported(request)
        }
        let exchange = exchanges.remove(at: index)
        if fallsBack(answer, frame) { return ask(exchange.request, busyEnd: exchange.busyEnd) }
        switch answer {
        case .good(let fields): try accepted(exchange.request, fields)
        // The device had no buffer for an echo request of the test. This answer is a result of the test and not an error.
        case .bad(.busy) where probe?.isOfRoom == true, .bad(.noMemory) where probe?.isOfRoom == true:
            probed(.refused)
        case .bad(.busy), .bad(.noMemory): busy(exchange)
        case .bad(let error): declined(exchange.request, error)
        }
    }

    /// Changes to SMP version 1 if the answer shows that the device does not support version 2.
    ///
    /// A device without version 2 answers in version 1, or refuses the request with the error `versionTooNew`.
    ///
    /// - Returns: true if the device refused the request with `versionTooNew`. The caller must then send the request again.
    private mutating func fallsBack(_ answer: SMPAnswer, _ frame: SMPFrame) -> Bool {
        guard version == .second else { return false }
        if answer == .bad(.versionTooNew) {
            version = .first
            return true
        }
        version = frame.version
        return false
    }

    /// Moves the queries in flight back to the start of `questions`. From then on, the conversation sends only one query at a time, because
    /// the device has failed to answer several queries at the same time.
    private mutating func requeueQuestions() {
        guard !exchanges.isEmpty else { return }
        questions = exchanges.map(\.request) + questions
        exchanges = []
        device.needsSequentialQuestions = true
    }

    private mutating func busy(_ exchange: Exchange) {
        requeueQuestions()
        let again = shared.now + ConversationState.busyInterval
        if exchange.request.isOptional, again > exchange.busyEnd { return notReported(exchange.request) }
        // If the restart window ends before the request can be sent again, the session fails.
        if let end = shared.restartDeadline, end < min(again, exchange.busyEnd) {
            return fail(
                UpdateError(
                    .deviceBusy, "the device still answers \(exchange.request.name) with busy at the time limit"))
        }
        guard let again = nextAttempt(exchange.request.name, busyEnd: exchange.busyEnd) else { return }
        state = .pausing(until: again, then: .ask(exchange.request, busyEnd: exchange.busyEnd))
    }

    private mutating func unanswered(_ exchange: Exchange) {
        if probe != nil { return probed(.silence) }
        requeueQuestions()
        switch exchange.request {
        case .reset: restarted(isAnswered: false)
        case let request where exchange.attempt < request.attempts: askAgain(exchange)
        // The device answers other requests, so the link is not lost.
        case let request where request.isOptional && list != nil: notReported(request)
        case let request:
            // The device may be silent only to this query, so the next link begins with another query.
            if request.isOptional { device.unanswered.append(request) }
            let seconds = (shared.now - exchange.since).components.seconds
            breakLink(LinkError(.timedOut, "no answer to \(request.name) within \(seconds) s"))
        }
    }

    private mutating func accepted(_ request: SMPRequest, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        switch request {
        case .echo(let text): return probed(fields["r"] == .text(text) ? .echoed : .refused)
        case .parameters: buffersReported(fields)
        case .bootloader: break
        case .bootloaderMode: device.mode = fields["mode"]?.integer.flatMap(SMPBootloaderMode.init)
        case .system:
            device.hardware = fields["output"]?.shortText.flatMap { $0.isEmpty ? nil : $0 }
            device.wasAskedForBoard = true
        case .slots: device.slots = try? SMPSlotList(fields)
        case .imageState: return try listed(SMPImageList(fields))
        case .setState(nil, confirm: false): device.marksImages = true
        case .setState(_, let confirm): return try marked(confirm: confirm, fields)
        case .reset: return restarted()
        case .erase: return erased()
        case .upload: return
        }
        askNext()
    }
}
