import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate

/// Looks at the device after every step of every client: what must hold at any time, whatever goes wrong.
final class Watcher: @unchecked Sendable {
    private let device: any VisibleDevice
    /// All that may ever boot.
    private let images: [[UInt8]]
    private let digests: Set<SHA256Digest>
    private(set) var offences: [String] = []
    private let offence: () -> String?
    /// What happened, for people; kept if asked for.
    private(set) var transcript: [String] = []
    private let keepsTranscript: Bool
    /// Whether nothing else than these images may be marked for boot: who marks has checked.
    var expectsCheckedMarks = true
    /// The client that is at it, the image that it pushes, and the one that ran for good when it began or was confirmed since.
    private var client = -1
    private var pushed: SHA256Digest?
    private var permanent: SHA256Digest?
    private var restarts = -1
    /// The restarts, and the operations of the flash, when this was last looked at.
    private var (bootSeen, memorySeen, marksSeen) = (-1, -1, -1)

    /// - Parameter offence: what is wrong in the device's memory; asked whenever that has changed.
    init(
        _ device: any VisibleDevice, images: [[UInt8]], keepsTranscript: Bool, offence: @escaping () -> String?
    ) {
        self.device = device
        self.images = images
        self.offence = offence
        digests = Set(images.map { SHA256.digest(of: $0) })
        self.keepsTranscript = keepsTranscript
    }

    func require(_ holds: Bool, _ offence: @autoclosure () -> String) {
        if !holds { note(Gauntlet.offenceMark + offence()) }
        if !holds, offences.count < 5 { offences.append(offence()) }
    }

    func note(_ line: @autoclosure () -> String) {
        if keepsTranscript { transcript.append(line()) }
    }

    func saw(
        _ client: Int, pushing image: SHA256Digest, _ event: UpdateEvent, _ now: Duration, _ actions: [UpdateAction]
    ) {
        if client != self.client {
            (self.client, pushed, permanent) = (client, image, device.permanentImage)
        }
        note("client \(client), \(now): \(brief(event)) → \(actions.map(brief).joined(separator: ", "))")
        look()
    }

    /// Cheap where nothing changed: only what is written to the flash can spoil it.
    func look() {
        require(device.flashViolationCount == 0, "the flash was not used as NOR flash may be")
        require(!device.isUnbootable, "the device has nothing to boot")
        if device.restartCount != restarts {
            restarts = device.restartCount
            note("the device has restarted \(restarts) times")
        }
        let operations = device.flashOperationCount
        // It may still be starting.
        if restarts != bootSeen || operations != memorySeen, device.running != nil {
            if restarts != bootSeen { lookAtRunningImage() }
            (bootSeen, memorySeen) = (restarts, operations)
            if let offence = offence() { require(false, offence) }
        }
        // A mark stays on record until the next one: it is enough to look when no page of an image is being written.
        if operations != marksSeen, device.imageReception == nil {
            marksSeen = operations
            lookAtMarks()
        }
    }

    private func lookAtMarks() {
        guard let state = device.bootState else { return require(false, "the bootloader's records are gone") }
        if let confirmed = device.permanentImage, confirmed != permanent {
            permanent = confirmed
            require(confirmed == pushed, "an image was confirmed that its client did not push")
        }
        guard expectsCheckedMarks else { return }
        for image in state.images.compactMap({ $0 }) {
            require(digests.contains(image.digest), "an image that nobody signed is marked for boot")
        }
        if state.trial == .pending, let marked = device.markedImage {
            require(images.contains(marked), "what is marked for boot is not what was signed")
        }
    }

    func lookAtRunningImage() {
        guard let image = device.runningImage else { return }
        require(images.contains(image), "what boots is no signed image, byte for byte")
    }

    private func brief(_ event: UpdateEvent) -> String {
        switch event {
        case .link(let event): brief(event)
        default: "\(event)".prefix(80).description
        }
    }

    private func brief(_ event: LinkEvent) -> String {
        switch event {
        case .value(let bytes, let channel): "value of \(name(channel)) \(Hex.encode(bytes.prefix(24)))"
        case .notified(let bytes, let channel): "\(name(channel)) notified \(Hex.encode(bytes))"
        case .subscribed(let channel): "subscribed to \(name(channel))"
        case .written(let channel): "\(name(channel)) written"
        case .refused(let error, let channel): "\(name(channel)) refused: \(error.detail)"
        case .lost(let error): "lost: \(error.detail)"
        }
    }

    private func brief(_ action: UpdateAction) -> String {
        switch action {
        case .link(.write(let bytes, let channel)): "write \(name(channel)) \(Hex.encode(bytes))"
        case .link(.send(let values, _)):
            "send \(values.count) chunks from \(values.first.map { Hex.encode($0.prefix(2)) } ?? "")"
        case .link(.read(let channel)): "read \(name(channel))"
        case .link(.subscribe(let channel)): "subscribe to \(name(channel))"
        default: "\(action)".prefix(160).description
        }
    }

    private func name(_ channel: Channel) -> String {
        switch channel {
        case VirtualGATT.info: "Info"
        case VirtualGATT.control: "Control"
        case VirtualGATT.data: "Data"
        case VirtualGATT.progress: "Progress"
        case VirtualGATT.version: "Version"
        case SMPChannel.value: "SMP"
        default: "another"
        }
    }
}

extension VisibleDevice {
    /// The digest of what runs for good.
    fileprivate var permanentImage: SHA256Digest? { bootState.flatMap { $0.images[$0.permanent]?.digest } }
}
