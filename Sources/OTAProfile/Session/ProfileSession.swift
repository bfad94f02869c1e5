import OTAFirmware
import OTASigning
public import OTAUpdate

/// The host's side of the GATT OTA profile (docs/ota-profile.md, "What the host does"), as a value.
///
/// One session for all tasks: one place for deadlines, retries and reconnecting. The files beside this one follow an
/// update's way: `+Connection`, `+Requests`, `+Transfer`, `+Ending`.
public struct ProfileSession: UpdateSession {
    /// What it is waiting for.
    enum Stage {
        case unstarted
        case connecting(due: Duration)
        case surveying(Survey, due: Duration)
        /// An answer, or the device's acknowledgements.
        case exchanging
        case pausing(until: Duration, then: DelayedAction)
        /// The end of the link that was asked for, by `due` at the latest.
        case closing(due: Duration, reason: Closing)
        case over
    }
    enum DelayedAction {
        case connect
        /// Once more what was answered with *busy*.
        case ask(Request, busyUntil: Duration)
    }
    enum Closing {
        /// The link is of no more use, for this reason.
        case broken(LinkError)
        /// The device restarts.
        case restart
    }

    let task: ProfileTask
    var push: Push?
    var stage = Stage.unstarted
    var exchange: Exchange?
    var transfer: ObjectTransfer?
    var link = LinkProperties(channels: [], maximumValueLength: 0)
    /// As found when the present connection began.
    var snapshot: DeviceSnapshot?
    var tag: UInt8
    var random: SplitMix64
    var retry = RetryPolicy()
    var wasConnected = false
    /// Set while the device restarts: when to stop looking for it.
    var lookUntil: Duration?
    /// CONFIRM, or DISCARD of a trial, went out: the device may have acted on it, whatever became of the answer.
    var hasEndedTrial = false
    /// CONFIRMs that went out.
    var confirms = 0
    /// As found when the first connection began.
    var first: DeviceSnapshot?
    var now = Duration.zero
    var actions: [UpdateAction] = []

    /// - Parameter seed: for the first tag and for the jitter of waits.
    public init(_ task: ProfileTask, seed: UInt64) {
        self.task = task
        if case .push(let bundle, let options) = task { push = Push(bundle, options) }
        random = SplitMix64(seed: seed)
        tag = UInt8.random(in: 0...255, using: &random)
    }

    public var deadline: Duration? {
        switch stage {
        case .unstarted, .over: nil
        case .connecting(let due), .surveying(_, let due), .closing(let due, _): due
        case .pausing(let until, _): until
        case .exchanging: [exchange?.due, transfer?.deadline].compactMap { $0 }.min()
        }
    }

    /// Image bytes handed to the link so far, up to the furthest one.
    package var sentOffset: Int {
        if let transfer, transfer.object == .image { return transfer.sentOffset }
        return push?.sentOffset ?? 0
    }

    public mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        self.now = now
        actions = []
        if isOver { return [] }
        // A restart has a limit of its own.
        push?.budget.pass(to: now, counts: lookUntil == nil)
        switch event {
        case .started: connect()
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

    /// A link that was given up may still speak until it is gone.
    private var listens: Bool {
        switch stage {
        case .surveying, .exchanging, .pausing(_, .ask): true
        case .unstarted, .connecting, .pausing(_, .connect), .closing, .over: false
        }
    }

    private mutating func heard(_ event: LinkEvent) {
        switch event {
        case .subscribed, .value: surveyed(event)
        case .notified(let bytes, ProfileChannel.control): answered(bytes)
        case .notified(let bytes, ProfileChannel.progress): progressed(bytes)
        case .refused(let error, let channel): refused(error, channel)
        case .notified, .written, .lost: break
        }
    }

    private mutating func deadlinePassed() {
        guard let deadline, deadline <= now else { return }
        switch stage {
        case .unstarted, .over: break
        case .connecting: linkDown(LinkError(.timedOut, "no connection within 35 s"))
        case .surveying: breakLink(LinkError(.lost, "the device did not say what it is within 10 s"))
        case .closing: linkDown(LinkError(.lost, "the link did not end when asked to"))
        case .pausing(_, .connect): connect()
        case .pausing(_, .ask(let request, let busyUntil)): ask(request, busyUntil: busyUntil)
        case .exchanging:
            if let exchange, exchange.due <= now {
                breakLink(
                    LinkError(
                        .lost,
                        "no answer to \(exchange.request.name) within \(exchange.request.timeLimit.components.seconds) s"
                    ))
            } else {
                pump()
            }
        }
    }

    mutating func report(_ progress: UpdateProgress) { actions.append(.report(progress)) }

    mutating func finish(_ outcome: UpdateReport.Outcome, _ device: DeviceDescription) {
        stage = .over
        actions += [.disconnect, .finish(UpdateReport(outcome: outcome, device: device, transfer: push?.transfer))]
    }

    mutating func fail(_ error: UpdateError) {
        stage = .over
        actions += [.disconnect, .fail(error)]
    }

    mutating func fail(_ error: FrameError) { fail(UpdateError(.protocolViolation, error.context)) }
}
