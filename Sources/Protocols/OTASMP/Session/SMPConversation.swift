import OTAFirmware
package import OTAUpdate

/// The host's side of SMP, the protocol of MCUmgr (docs/smp.md).
///
/// On each link, the conversation subscribes and requests the image list. ``SMPPlan`` determines the next step of a push from this list, so
/// a push also continues after a lost link. The features of the device are requested once, because a new link does not change them.
///
/// This file has the state and the inputs of the conversation. The extensions have the outputs, in the order of an update: `+Requests`,
/// `+Survey`, `+Push`, `+Upload`, `+Chunks`, `+Ending`. A device with one slot is in `+Loader`.
package struct SMPConversation: Conversation {
    package static let updateProtocol = UpdateProtocol.smp

    /// What the conversation waits for.
    enum State {
        /// No link is open.
        case idle
        /// The conversation waits for the answer to its subscription, at the latest until `due`.
        case subscribing(due: Duration)
        /// The conversation waits for the answers to these requests, in the order of sending.
        ///
        /// Several requests wait at the same time only if they are queries to a device with several buffers, or echo requests of a test.
        case asking([SMPExchange])
        /// The conversation waits for the answers to chunks.
        case uploading(SMPUpload)
        /// The conversation waits until this time, and then performs the step. No answer is expected.
        case pausing(until: Duration, then: Step)
    }
    /// The step that follows a pause.
    enum Step {
        case ask(SMPExchange)
        /// Send the next chunks of the upload.
        case upload(SMPUpload)
        /// Send the echo requests of the next test (``SMPProbe``).
        case probe
    }
    /// A limited wait, by the name of its end.
    private enum Timer {
        case subscription
        case answer(SMPExchange)
        case chunk(SMPUpload)
        case pause(Step)
    }
    /// The knowledge that ends with a link.
    struct LinkState {
        var assembler = SMPFrameAssembler()
        /// Whether the device has notified a value.
        var hasNotified = false
        /// The queries that the conversation has not sent yet, in the order of sending.
        var questions: [SMPRequest] = []
        /// The optional queries to which the device was silent after it had answered the request for its image list.
        var silent: [SMPRequest] = []
        /// True from the first query that precedes an upload until all these queries have been answered.
        var isSurveying = false
        /// The image list. Nil if no list has arrived, or if the images on the device may have changed since the last list.
        var list: SMPImageList?
        /// The error with which the device refused its image list; nil if it has not refused it. The application of a device with one slot
        /// has no image list.
        var listRefusal: SMPError?

        /// True if the device has answered the request for its image list.
        var hasImageState: Bool { list != nil || listRefusal != nil }
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
    var state = State.idle
    var link = LinkState()
    var device = SMPDevice()
    var push: SMPPush?
    var loader = SMPLoader()
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
    /// True after the device has answered the request for its image list. An open link does not show that a device answers, because UDP has
    /// no connections.
    package var isDeviceReached = false
    /// The JSON names of the bundle's fields that could not be checked against the device.
    var unchecked: [String] = []
    /// The slot that the task `discard` erases or has erased. Nil if the task has requested no erase.
    var erasedSlot: ErasedSlot?
    /// The image numbers of the push whose running image the device does not list.
    var unlistedImages: [Int] = []

    /// - Throws: `unsupportedDevice` for `UpdateTask.identify`, which SMP does not support.
    package init(_ task: UpdateTask<[SMPImage]>) throws(UpdateError) {
        self.task = task
        switch task {
        case .push(let images, let options):
            push = SMPPush(images, options)
            shared = ConversationState(pushOf: images.reduce(0) { $0 + $1.bytes.count })
        case .status, .confirm, .discard, .restart: shared = ConversationState()
        case .identify: throw UpdateError(.unsupportedDevice, "SMP has no command that makes a device blink")
        }
    }

    // MARK: Conversation

    /// A fixed time of 60 s, because SMP does not report the restart time. A bootloader can swap 1 MB in 60 s.
    package var restartTime: Duration { .seconds(60) }

    package var deadline: Duration? { timer?.due }

    /// The timer that ends first.
    private var timer: (name: Timer, due: Duration)? {
        switch state {
        case .idle: nil
        case .subscribing(let due): (.subscription, due)
        case .asking(let exchanges): exchanges.min { $0.due < $1.due }.map { (.answer($0), $0.due) }
        case .uploading(let upload): upload.deadline.map { (.chunk(upload), $0) }
        case .pausing(let end, let step): (.pause(step), end)
        }
    }

    package mutating func begin() {
        device.connected(over: shared.link, valueLength: valueLength)
        guard shared.link.channels.contains(SMPChannel.value) else { return missesSMP() }
        // Another program, or another device, can answer on each link.
        if loader.isUnderWay { device.forgetMode() }
        link = LinkState()
        state = .subscribing(due: shared.now + Self.subscribeLimit)
        submit(.subscribe(SMPChannel.value))
    }

    package mutating func handle(_ event: LinkEvent) {
        react(to: event)
        leaveLoaderAfterRefusal()
    }

    private mutating func react(to event: LinkEvent) {
        switch (event, state) {
        case (.subscribed(SMPChannel.value), .subscribing):
            if !device.wasGreeted { link.questions = firstQuestions.filter { !device.unanswered.contains($0) } }
            askNext()
        case (.notified(let bytes, SMPChannel.value), _): notified(bytes)
        // While the conversation waits for answers, the device can only refuse the write with response of `send(_:)`. A device may accept
        // only writes without response, so all errors except a demand for pairing are ignored.
        case (.refused(let error, _), .asking), (.refused(let error, _), .uploading):
            if error.code == .notPermitted { refused(error) }
        case (.refused(let error, _), _): refused(error)
        case (.subscribed, _), (.value, _), (.notified, _), (.written, _): break
        }
    }

    private mutating func notified(_ bytes: [UInt8]) {
        link.hasNotified = true
        do throws(SMPFrameError) {
            for frame in try link.assembler.take(bytes) where !hasDecided { try take(frame) }
        } catch {
            // The first two malformed packets only close the link, because they can be the rest of a packet whose start was lost.
            violations += 1
            guard violations < Self.mostViolations else { return fail(error) }
            breakLink(LinkError(.lost, error.context))
        }
    }

    /// Handles a received packet. Ignores a packet that answers no open request and no chunk in flight, such as a late answer.
    private mutating func take(_ frame: SMPFrame) throws(SMPFrameError) {
        switch state {
        case .asking(var exchanges):
            guard let index = exchanges.firstIndex(where: { $0.isAnswered(by: frame) }) else { return }
            let exchange = exchanges.remove(at: index)
            state = .asking(exchanges)
            try answered(exchange, by: frame)
        case .uploading(let upload): if upload.isAnswered(by: frame) { try answered(upload, by: frame) }
        case .idle, .subscribing, .pausing: break
        }
    }

    package mutating func deadlinePassed() {
        timedOut()
        leaveLoaderAfterRefusal()
    }

    private mutating func timedOut() {
        switch timer?.name {
        case nil: break
        case .subscription:
            let seconds = Self.subscribeLimit.components.seconds
            breakLink(
                LinkError(.timedOut, "the device did not accept the subscription within \(seconds) s"))
        case .answer(let exchange):
            state = .asking(asked.filter { $0.sequence != exchange.sequence })
            unanswered(exchange)
        case .chunk(let upload): unanswered(upload)
        case .pause(.ask(let exchange)): ask(exchange)
        case .pause(.upload(let upload)): pump(upload)
        case .pause(.probe): sendProbe()
        }
    }

    package mutating func linkEnded() {
        state = .idle
        guard restart == .asked else { return }
        restart = .under(since: shared.now)
        if device.hasFirmwareLoader { restartedWithLoader(isAnswered: false) }
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
}
