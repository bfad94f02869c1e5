package import OTAUpdate

/// Reads the running version of a device, and the board name if the device reports it. It sends three queries and repeats none, so that a
/// device that is silent or busy delays a scan only for a short time.
package struct SMPIdentification: Conversation {
    package static let updateProtocol = UpdateProtocol.smp
    private static let limit = Duration.seconds(5)

    package var shared = ConversationState()
    package private(set) var deadline: Duration?
    private var assembler = SMPFrameAssembler()
    /// The query without an answer; nil before the subscription.
    private var query: (request: SMPRequest, sequence: UInt8)?
    /// The image list; nil if the device has refused it.
    private var list: SMPImageList?
    private var board: String?

    package init() {}

    package var isDeviceReached: Bool { true }
    package var restartTime: Duration { .zero }

    package mutating func begin() {
        deadline = shared.now + Self.limit
        submit(.subscribe(SMPChannel.value))
    }

    package mutating func handle(_ event: LinkEvent) {
        switch event {
        case .subscribed: ask(.imageState)
        case .notified(let bytes, SMPChannel.value):
            do throws(SMPFrameError) {
                for frame in try assembler.take(bytes) {
                    guard let query, query.request.isAnswered(by: frame, sequence: query.sequence) else { continue }
                    try answered(query.request, SMPAnswer(parsing: frame.body))
                }
            } catch {
                fail(UpdateError(.protocolViolation, error.context))
            }
        case .refused(let error, _): refused(error)
        case .notified, .value, .written: break
        }
    }

    /// Sends a query with SMP version 1, because every device with SMP supports version 1.
    private mutating func ask(_ request: SMPRequest) {
        let sequence = shared.nextNumber()
        query = (request, sequence)
        submit(.send([request.frame(sequence: sequence, version: .first).bytes], SMPChannel.value))
    }

    private mutating func answered(_ request: SMPRequest, _ answer: SMPAnswer) throws(SMPFrameError) {
        query = nil
        var fields: [String: CBORValue]?
        if case .good(let good) = answer { fields = good }
        switch request {
        case .imageState:
            if let fields {
                list = try SMPImageList(fields)
            } else if answer != .bad(.unsupported) {
                return failWithoutImage()
            }
            ask(.system(format: "i"))
        case .system:
            board = fields?["output"]?.text
            ask(.bootloaderMode)
        default: finish(mode: fields?["mode"]?.integer)
        }
    }

    /// Ends with the running image. The list of a device with one slot and a firmware loader does not show it, and its application has no list.
    private mutating func finish(mode: Int?) {
        if mode == SMPBootloaderMode.firmwareLoader.rawValue {
            let state: DeviceDescription.State = list == nil ? .unknown : .loader
            return finish(.done, DeviceDescription(product: board, state: state, runningVersion: ""))
        }
        guard let running = list?.running(0) else { return failWithoutImage() }
        finish(.done, DeviceDescription(product: board, state: .unknown, runningVersion: running.version))
    }

    private mutating func failWithoutImage() {
        fail(UpdateError(.unsupportedDevice, "the device does not report the running image over SMP"))
    }

    package mutating func deadlinePassed() {
        // A device that is only silent to the last query is shown as a device without this query.
        if let query, query.request == .bootloaderMode { return finish(mode: nil) }
        fail(UpdateError(.noAnswer, "no answer over SMP within \(Self.limit.components.seconds) s"))
    }

    package mutating func linkEnded() {}
}
