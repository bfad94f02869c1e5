import Glibc
import OTAClient
import OTACommands
import OTAFirmware
import OTAProtocol
import OTASigning
import OTAUpdate

/// The command line of otaflash with one more protocol. It shows that a protocol is a definition, a virtual device and a line in the table.
@main
struct Main {
    static func main() async {
        let table = Protocols.all + [Protocols.Entry(ToyDefinition(), VirtualToyKind())]
        exit(await Protocols.$all.withValue(table) { await OTAFlash.run(CommandLine.arguments) })
    }
}

extension UpdateProtocol {
    static let toy = UpdateProtocol("toy", title: "toy protocol")
}

/// A protocol without resume and without trial. The host writes to Control: `1` and the size in 4 bytes, little-endian, erases the slot; `2`
/// asks for the number of received bytes; `3` starts the image at the next boot, and restarts. The device notifies the answer: the opcode,
/// and after `2` the number in 4 bytes. The image bytes go to Data. Version can be read.
enum ToyChannel {
    private static let service: UInt128 = 0xc7e100ff_63a0_486d_9bcb_a18d79d9acd9
    static let control = Channel(service: service, characteristic: service + 1)
    static let data = Channel(service: service, characteristic: service + 2)
    static let version = Channel(service: service, characteristic: service + 3)
    static let all: Set = [control, data, version]

    enum Opcode: UInt8 {
        case erase = 1
        case count, install
    }
}

struct ToyDefinition: ProtocolDefinition {
    let updateProtocol = UpdateProtocol.toy
    let summary = "toy protocol"
    let services: Set<UInt128> = [ToyChannel.control.service]

    let channelNames = [ToyChannel.control: "control", ToyChannel.data: "data", ToyChannel.version: "version"]

    func headers(of values: [[UInt8]], on channel: Channel) -> [Int]? {
        channel == ToyChannel.data ? values.map { _ in 0 } : nil
    }

    func accepts(_ update: VerifiedUpdate) -> Bool { if case .bundle = update { true } else { false } }

    func conversation(_ task: UpdateTask<VerifiedUpdate>) throws(UpdateError) -> any Conversation {
        switch task {
        case .push(.bundle(let bundle), _): return ToyConversation(pushing: bundle)
        case .status: return ToyConversation(pushing: nil)
        default: throw UpdateError(.unsupportedDevice, "the toy protocol has no such command")
        }
    }
}

private struct ToyConversation: Conversation {
    private enum State {
        case readingVersion
        case erasing, sending, installing
    }

    static let updateProtocol = UpdateProtocol.toy
    /// The bytes between two questions for the received bytes.
    private static let window = 4096

    var shared: ConversationState
    var deadline: Duration?
    private let bundle: VerifiedBundle?
    private var state = State.readingVersion
    private var isInstalled = false
    private(set) var sentOffset = 0

    init(pushing bundle: VerifiedBundle?) {
        self.bundle = bundle
        shared = bundle.map { ConversationState(pushOf: $0.image.count) } ?? ConversationState()
    }

    var isDeviceReached: Bool { true }
    var restartTime: Duration { .seconds(5) }

    mutating func begin() {
        ask(.readingVersion, .read(ToyChannel.version))
    }

    private mutating func ask(_ next: State, _ command: LinkCommand) {
        (state, deadline) = (next, shared.now + .seconds(5))
        submit(command)
    }

    mutating func handle(_ event: LinkEvent) {
        switch (state, event) {
        case (.readingVersion, .value(let bytes, ToyChannel.version)): read(String(decoding: bytes, as: UTF8.self))
        case (.erasing, .subscribed), (.sending, .written), (.installing, .written): break
        case (.erasing, .notified(let answer, _)) where answer.first == ToyChannel.Opcode.erase.rawValue: send()
        case (.sending, .notified(let answer, _)) where answer.first == ToyChannel.Opcode.count.rawValue:
            let count = UInt32(littleEndianBytes: answer.dropFirst())
            guard count == UInt32(sentOffset) else {
                return reconnect(.afterLoss(LinkError(.lost, "the device has \(count) of \(sentOffset) bytes")))
            }
            progressed()
            send()
        case (.installing, .notified):
            isInstalled = true
            shared.restartDeadline = shared.now + .seconds(30)
            reconnect(.afterRestart(reportsPhase: true))
        case (_, .refused(let error, _)): refused(error)
        default: break
        }
    }

    private mutating func read(_ version: String) {
        let device = DeviceDescription(state: .idle, runningVersion: version)
        guard let bundle else { return finish(.done, device) }
        if version == bundle.manifest.version.text { return finish(isInstalled ? .confirmed : .alreadyRunning, device) }
        guard !isInstalled else { return fail(UpdateError(.rolledBack, "the device runs \(version)")) }
        enter(.sending)
        submit(.subscribe(ToyChannel.control))
        sentOffset = 0
        ask(
            .erasing,
            .write(
                [ToyChannel.Opcode.erase.rawValue] + UInt32(bundle.image.count).littleEndianBytes, ToyChannel.control))
    }

    private mutating func send() {
        guard let image = bundle?.image else { return }
        guard sentOffset < image.count else {
            enter(.marked)
            report(.phase(.apply))
            return ask(.installing, .write([ToyChannel.Opcode.install.rawValue], ToyChannel.control))
        }
        if sentOffset == 0 { report(.phase(.transfer)) }
        report(.transferred(offset: sentOffset, total: image.count, sent: sentOffset))
        let part = image[sentOffset..<min(sentOffset + Self.window, image.count)]
        let length = ChunkLength.planned(link: shared.link.maximumValueLength)
        let chunks = stride(from: part.startIndex, to: part.endIndex, by: length).map {
            Array(part[$0..<min($0 + length, part.endIndex)])
        }
        submit(.send(chunks, ToyChannel.data))
        sentOffset = part.endIndex
        shared.ledger?.budget.sent(part.count)
        ask(.sending, .write([ToyChannel.Opcode.count.rawValue], ToyChannel.control))
    }

    mutating func deadlinePassed() { reconnect(.afterLoss(LinkError(.timedOut, "no answer within 5 s"))) }
    mutating func linkEnded() { deadline = nil }
}

extension UInt32 {
    var littleEndianBytes: [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: self >> (8 * $0)) } }

    init(littleEndianBytes bytes: some Sequence<UInt8>) {
        self = bytes.prefix(4).reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }
}
