import OTAFirmware
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate

/// Checks the device after every step of every client for the conditions that must hold under all faults.
final class Watcher: @unchecked Sendable {
    private let device: any VisibleDevice
    /// The images that may boot.
    private let images: [[UInt8]]
    private let digests: Set<SHA256Digest>
    private(set) var offences: [String] = []
    private let offence: () -> String?
    /// The readable transcript; kept only on request.
    private(set) var transcript: [String] = []
    private let keepsTranscript: Bool
    /// True if only these images may be marked for boot, because the image is checked before it is marked.
    var expectsCheckedMarks = true
    /// False if the image of an earlier client can boot without a further step of this client.
    var bootsOnlyPushedImages = true
    /// The current client, the digest of its image, and the digest of the permanent image at its start or since the last confirmation.
    private var client = -1
    private var pushed: SHA256Digest?
    private var permanent: SHA256Digest?
    private var restarts = -1
    /// The numbers of restarts and of flash operations at the last check.
    private var (bootSeen, memorySeen, marksSeen) = (-1, -1, -1)

    /// - Parameter offence: returns an offence in the device's memory; called after each change of the memory.
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

    /// Checks the device. Without a new flash operation or restart most checks are skipped, because nothing can have changed.
    func look() {
        require(device.flashViolationCount == 0, "the device used its flash in a way that NOR flash does not allow")
        require(!device.isUnbootable, "the device has no bootable image")
        if device.restartCount != restarts {
            restarts = device.restartCount
            note("the device has restarted \(restarts) times")
        }
        let operations = device.flashOperationCount
        // The device may still be booting.
        if restarts != bootSeen || operations != memorySeen, device.running != nil {
            if restarts != bootSeen { lookAtRunningImage() }
            (bootSeen, memorySeen) = (restarts, operations)
            if let offence = offence() { require(false, offence) }
        }
        // A mark stays in the records until the next mark, so it can be checked later, when no image is being received.
        if operations != marksSeen, device.imageReception == nil {
            marksSeen = operations
            lookAtMarks()
        }
    }

    private func lookAtMarks() {
        guard let state = device.bootState else { return require(false, "the bootloader's records are missing") }
        if let confirmed = device.permanentImage, confirmed != permanent {
            permanent = confirmed
            require(
                confirmed == pushed || !bootsOnlyPushedImages,
                "the device confirmed an image that the client did not push")
        }
        guard expectsCheckedMarks else { return }
        for image in state.images.compactMap({ $0 }) {
            require(digests.contains(image.digest), "an image that is not signed is marked for boot")
        }
        if state.trial == .pending, let marked = device.markedImage {
            require(images.contains(marked), "the image marked for boot differs from the signed images")
        }
    }

    func lookAtRunningImage() {
        guard let image = device.runningImage else { return }
        require(images.contains(image), "the running image differs from the signed images")
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
    /// The digest of the permanent image.
    fileprivate var permanentImage: SHA256Digest? { bootState.flatMap { $0.images[$0.permanent]?.digest } }
}
