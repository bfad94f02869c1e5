import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate

/// Runs a session and a faulty device in virtual time; the ledger checks each event and action.
struct HostileWorld {
    static let mostSteps = 200_000
    /// The limit is high because a slow device may accept only one chunk on each link.
    static let longest = Duration.seconds(3 * 3600)

    private(set) var ledger: HostileLedger
    private(set) var outcome: Result<UpdateReport, UpdateError>?
    private(set) var now = Duration.zero
    private(set) var steps = 0
    private var session: UpdateSession
    private var device: HostileDevice
    private let temper: HostileTemper
    private var random: SplitMix64
    private var agenda = Agenda()
    /// The answer of the encoder. It arrives even if the link is lost.
    private var encoder: (event: UpdateEvent, at: Duration)?
    private let release: HostileRelease

    /// The pending events and commands.
    private struct Agenda {
        enum Item {
            case event(UpdateEvent)
            /// A command that reaches the device late.
            case command(LinkCommand)
        }
        /// Sorted by time, latest first.
        private var items: [(at: Duration, item: Item)] = []
        var first: Duration? { items.last?.at }

        mutating func add(_ item: Item, at instant: Duration) {
            items.insert((instant, item), at: items.firstIndex { $0.at <= instant } ?? items.endIndex)
        }
        mutating func next() -> Item? { items.popLast()?.item }
        mutating func clear() { items = [] }
    }

    init(_ task: UpdateTask<VerifiedBundle>, _ release: HostileRelease, seed: UInt64) throws {
        random = SplitMix64(seed: seed)
        self.release = release
        temper = HostileTemper(random: &random)
        session = UpdateSession(try ProfileConversation(task), seed: seed)
        device = HostileDevice(release, temper, seed: seed)
        ledger = HostileLedger(release, task)
    }

    /// Runs until the session has an outcome, violates the profile or hangs.
    mutating func play() {
        tell(.started)
        while outcome == nil, ledger.offences.isEmpty, steps < Self.mostSteps, now < Self.longest,
            let deadline = session.deadline
        {
            if happens(temper.interruptions * 0.02) {
                tell(.interrupted)
            } else if let (event, at) = encoder, at <= min(agenda.first ?? deadline, max(deadline, now)) {
                encoder = nil
                now = max(now, at)
                tell(event)
            } else if let first = agenda.first, first <= max(deadline, now), let item = agenda.next() {
                now = max(now, first)
                switch item {
                case .event(let event): tell(event)
                case .command(let command): add(device.obey(command))
                }
            } else {
                now = max(now, deadline)
                tell(.deadlinePassed)
            }
        }
    }

    private mutating func happens(_ probability: Double) -> Bool {
        probability > 0 && Double.random(in: 0..<1, using: &random) < probability
    }

    private mutating func encode(_ request: EncodingRequest) {
        var result: Result<EncodedImage, EncodingFailure>? = .success(
            HostileStream(of: release.image, from: request.offset).encoded)
        var delay = Duration.milliseconds(Int.random(in: 0...100, using: &random))
        if happens(temper.encoderFaults) {
            switch random.next() % 4 {
            case 0: result = nil
            case 1: result = .failure(.baseUnreadable(context: "it has changed"))
            case 2: result = .success(EncodedImage(offset: request.offset, bytes: [1], chunks: []))
            default: delay = .seconds(70)
            }
        }
        encoder = (.encoded(request, result), now + delay)
    }

    private mutating func add(_ happenings: [HostileDevice.Happening]) {
        var last = now + .milliseconds(5)
        for happening in happenings {
            if happening.delay < .seconds(1) { last += happening.delay }
            agenda.add(.event(happening.event), at: max(last, now + happening.delay))
        }
    }

    private mutating func tell(_ event: UpdateEvent) {
        steps += 1
        if case .linkDown = event, !happens(temper.clinging) { agenda.clear() }
        ledger.hear(event)
        for action in session.handle(event, at: now) {
            ledger.see(action)
            switch action {
            case .connect, .find:
                agenda.clear()
                add([device.connect(at: now)])
            case .disconnect:
                if !happens(temper.clinging) { agenda.clear() }
                if happens(temper.clinging) { break }
                add([.init(delay: .milliseconds(5), event: .linkDown(LinkError(.lost, "closed")))])
            case .link(let command):
                if case .write = command, happens(temper.overtaking) {
                    agenda.add(.command(command), at: now + .milliseconds(Int.random(in: 0...200, using: &random)))
                } else {
                    add(device.obey(command))
                }
            case .encode(let request): encode(request)
            case .report, .stage, .acceptCandidate: break
            case .finish(let report): outcome = .success(report)
            case .fail(let error): outcome = .failure(error)
            }
        }
    }
}
