import OTAFirmware
public import OTAUpdate

/// The host's side of SMP, MCUmgr's protocol, as a value.
///
/// One session for all tasks: one place for deadlines, retries and reconnecting. The files beside this one follow an
/// update's way: `+Connection`, `+Requests`, `+Survey`, `+Push`, `+Upload`, `+Ending`.
public struct SMPSession: UpdateSession {
    /// What it is waiting for.
    enum Stage {
        case unstarted
        case connecting(due: Duration)
        case subscribing(due: Duration)
        /// An answer, or several.
        case exchanging
        case pausing(until: Duration, then: DelayedAction)
        /// The end of the link that was asked for, by `due` at the latest.
        case closing(due: Duration, reason: Closing)
        case over
    }
    enum DelayedAction {
        case connect
        /// Once more what was answered with *busy*.
        case ask(SMPRequest, busyUntil: Duration)
        /// Chunks, once the device had time to free its buffers.
        case upload
        /// The echoes that find out what the device takes.
        case probe
    }
    enum Closing {
        /// The link is of no more use, for this reason.
        case broken(LinkError)
        /// What came over it last is not to be mixed up with what comes next.
        case fresh
        /// The device restarts.
        case restart
    }

    let task: SMPTask
    var push: SMPPush?
    var stage = Stage.unstarted
    /// In the order in which they were sent.
    var exchanges: [SMPExchange] = []
    var upload: SMPUpload?
    var assembler = SMPFrameAssembler()
    var link = LinkProperties(channels: [], maximumValueLength: 0)
    var version = SMPFrame.Version.second
    var device = SMPDevice()
    /// The questions are those that come before an image is sent.
    var isSurveying = false
    /// The echoes on their way are to find this out.
    var probe: SMPProbe?
    /// Still to be asked, in order.
    var questions: [SMPRequest] = []
    /// As told in the present connection, and not outdated since.
    var list: SMPImageList?
    var sequence: UInt8
    var random: SplitMix64
    var retry = RetryPolicy()
    var wasConnected = false
    /// Packets that could not be read.
    var violations = 0
    var restart = SMPRestart.none
    /// Times it was asked for.
    var restarts = 0
    /// Set from the restart on: when to stop looking for the device.
    var lookUntil: Duration?
    /// Confirm went out: the device may have acted on it, whatever became of the answer.
    var hasConfirmed = false
    /// Marks and confirmations that went out.
    var marks = 0
    /// As told when the session began.
    var first: SMPImageList?
    var now = Duration.zero
    var actions: [UpdateAction] = []

    /// - Parameter seed: for the first sequence number and for the jitter of waits.
    public init(_ task: SMPTask, seed: UInt64) {
        self.task = task
        if case .push(let images, let options) = task { push = SMPPush(images, options) }
        random = SplitMix64(seed: seed)
        sequence = UInt8.random(in: 0...255, using: &random)
    }

    public var deadline: Duration? {
        switch stage {
        case .unstarted, .over: nil
        case .connecting(let due), .subscribing(let due), .closing(let due, _): due
        case .pausing(let until, _): until
        case .exchanging: (exchanges.map(\.due) + [upload?.deadline].compactMap { $0 }).min()
        }
    }

    /// Image bytes handed to the link so far, up to the furthest one.
    package var sentOffset: Int { push?.sentOffset ?? 0 }

    public mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        self.now = now
        actions = []
        if isOver { return [] }
        // A restart has a limit of its own.
        push?.budget.pass(to: now, counts: lookUntil == nil)
        switch event {
        case .started: start()
        case .linkUp(let properties): linkUp(properties)
        case .link(.lost(let error)), .linkDown(let error): linkDown(error)
        case .link(let event): if listens { heard(event) }
        case .deadlinePassed: deadlinePassed()
        case .interrupted: fail(UpdateError(.interrupted, "stopped"))
        }
        if !isOver, let error = push?.budget.exhausted { fail(error) }
        return actions
    }

    private var isOver: Bool { if case .over = stage { true } else { false } }

    private mutating func start() {
        if case .identify = task {
            return fail(UpdateError(.unsupportedDevice, "SMP has no command that makes a device blink"))
        }
        connect()
    }

    /// A link that was given up may still speak until it is gone.
    private var listens: Bool {
        switch stage {
        case .subscribing, .exchanging, .pausing(_, .ask), .pausing(_, .upload), .pausing(_, .probe): true
        case .unstarted, .connecting, .pausing(_, .connect), .closing, .over: false
        }
    }

    private mutating func heard(_ event: LinkEvent) {
        switch event {
        case .subscribed(SMPChannel.value): subscribed()
        case .notified(let bytes, SMPChannel.value): notified(bytes)
        case .refused(let error, _): refused(error)
        case .subscribed, .value, .notified, .written, .lost: break
        }
    }

    private mutating func deadlinePassed() {
        guard let deadline, deadline <= now else { return }
        switch stage {
        case .unstarted, .over: break
        case .connecting: linkDown(LinkError(.timedOut, "no connection within 35 s"))
        case .subscribing: breakLink(LinkError(.timedOut, "the device did not let itself be subscribed to within 10 s"))
        case .closing: linkDown(LinkError(.lost, "the link did not end when asked to"))
        case .pausing(_, .connect): connect()
        case .pausing(_, .ask(let request, let busyUntil)): ask(request, busyUntil: busyUntil)
        case .pausing(_, .upload): pump()
        case .pausing(_, .probe): sendProbe()
        case .exchanging:
            if let index = exchanges.firstIndex(where: { $0.due <= now }) {
                unanswered(exchanges.remove(at: index))
            } else {
                chunkUnanswered()
            }
        }
    }

    mutating func report(_ progress: UpdateProgress) { actions.append(.report(progress)) }

    mutating func finish(_ outcome: UpdateReport.Outcome, _ device: DeviceDescription) {
        stage = .over
        actions += [
            .disconnect,
            .finish(
                UpdateReport(
                    outcome: outcome, device: device, transfer: push?.transfer, unchecked: push?.unchecked ?? [])),
        ]
    }

    mutating func fail(_ error: UpdateError) {
        stage = .over
        actions += [.disconnect, .fail(error)]
    }

    mutating func fail(_ error: SMPFrameError) { fail(UpdateError(.protocolViolation, error.context)) }
}
