import OTAUpdate

/// A decoder of foreign bytes. The fuzzer (`Fuzz/`) and the tests that run its corpus call it.
public enum FuzzTarget: String, CaseIterable, Sendable {
    case bundle
    case keys
    case trustFolder = "trust-folder"
    case images
    case intelHex = "intel-hex"
    case frames
    case session
    case bus
    case objectTree = "object-tree"
    case deviceFile = "device-file"
    case deviceFlash = "device-flash"
    case addresses
    case cbor
    case smpFrames = "smp-frames"
    case smpSession = "smp-session"
    case smpDevice = "smp-device"
    case console
    case serialFrames = "serial-frames"
    case zip
    case package
    case nordic
    case agent
    case signers
    case attestations
    case fleet
    case nats
    case natsServer = "nats-server"

    /// Runs the decoder on the bytes. It may refuse them, but must not trap or hang.
    ///
    /// - Returns: The violated condition, or nil.
    public func run(_ bytes: [UInt8]) -> String? {
        switch self {
        case .bundle: BundleFuzz.run(bytes)
        case .keys: KeyFuzz.run(bytes)
        case .trustFolder: TrustFolderFuzz.run(bytes)
        case .images: ImageFuzz.run(bytes)
        case .intelHex: IntelHexFuzz.run(bytes)
        case .frames: FrameFuzz.run(bytes)
        case .session: SessionFuzz.run(bytes)
        case .bus: BusFuzz.run(bytes)
        case .objectTree: ObjectTreeFuzz.run(bytes)
        case .deviceFile: DeviceFileFuzz.run(bytes)
        case .deviceFlash: DeviceFlashFuzz.run(bytes)
        case .addresses: AddressFuzz.run(bytes)
        case .cbor: CBORFuzz.run(bytes)
        case .smpFrames: SMPFrameFuzz.run(bytes)
        case .smpSession: SMPSessionFuzz.run(bytes)
        case .smpDevice: SMPDeviceFuzz.run(bytes)
        case .console: ConsoleFuzz.run(bytes)
        case .serialFrames: SerialFramesFuzz.run(bytes)
        case .zip: ZipFuzz.run(bytes)
        case .package: PackageFuzz.run(bytes)
        case .nordic: NordicFuzz.run(bytes)
        case .agent: AgentFuzz.run(bytes)
        case .signers: SignerFuzz.run(bytes)
        case .attestations: AttestationFuzz.run(bytes)
        case .fleet: FleetFuzz.run(bytes)
        case .nats: NATSFuzz.run(bytes)
        case .natsServer: NATSServerFuzz.run(bytes)
        }
    }
}

/// The fuzzer's bytes, which the targets read as decisions. After the end every byte is 0.
struct FuzzInput {
    private let bytes: [UInt8]
    private var index = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    var isEmpty: Bool { index >= bytes.count }

    mutating func next() -> UInt8 {
        guard index < bytes.count else { return 0 }
        index += 1
        return bytes[index - 1]
    }

    mutating func nextNumber() -> UInt32 { (0..<4).reduce(0) { number, _ in number << 8 | UInt32(next()) } }

    /// The smallest first byte that selects a faulty device of the gauntlet for a session. The other bytes select its faults.
    static let hostile: UInt8 = 0xF0

    mutating func number(in range: ClosedRange<Int>) -> Int { range.lowerBound + Int(next()) % range.count }

    mutating func bytes(upTo count: Int) -> [UInt8] {
        let end = min(index + count, bytes.count)
        defer { index = end }
        return Array(bytes[index..<end])
    }
}

/// The link, the device and the clock of a session. The input determines their behaviour.
protocol FuzzPeer {
    /// Receives an action of the session.
    ///
    /// - Returns: The violated condition, or nil.
    mutating func hear(_ action: UpdateAction) -> String?

    /// Returns the next event. The time may advance before it.
    mutating func event(_ input: inout FuzzInput, at now: inout Duration, deadline: Duration?) -> UpdateEvent
}

extension FuzzPeer {
    /// Runs a session until the end of the input.
    ///
    /// The session must end at most once and must not act after its end. Before its end it must always have a deadline.
    ///
    /// - Returns: The violated condition, or nil.
    mutating func run(_ session: consuming UpdateSession, _ input: inout FuzzInput) -> String? {
        var now = Duration.zero
        var hasEnded = false
        var event = UpdateEvent.started
        while true {
            let actions = session.handle(event, at: now)
            if hasEnded, !actions.isEmpty { return "the session acts after its end" }
            for action in actions {
                if action.isLast {
                    if hasEnded { return "the session ends twice" }
                    hasEnded = true
                }
                if let finding = hear(action) { return finding }
            }
            if hasEnded != (session.deadline == nil) {
                return hasEnded
                    ? "the session has a deadline after its end" : "the session has no deadline before its end"
            }
            guard !input.isEmpty else { return nil }
            event = self.event(&input, at: &now, deadline: session.deadline)
        }
    }
}

extension UpdateAction {
    fileprivate var isLast: Bool {
        switch self {
        case .finish, .fail: true
        case .connect, .find, .acceptCandidate, .disconnect, .link, .encode, .report, .stage: false
        }
    }
}
