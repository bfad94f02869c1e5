package import OTAUpdate

/// Reads the running version of a device, and the board name if the device reports it. It sends two queries and repeats none, so that a
/// device that is silent or busy delays a scan only for a short time.
package struct SMPIdentification: Conversation {
    package static let updateProtocol = UpdateProtocol.smp
    private static let limit = Duration.seconds(5)

    package var shared = ConversationState()
    package private(set) var deadline: Duration?
    private var assembler = SMPFrameAssembler()
    /// The query without an answer; nil before the subscription.
    private var query: (request: SMPRequest, sequence: UInt8)?
    private var version = ""

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
        guard case .imageState = request else {
            let board = fields?["output"]?.text
            return finish(.done, DeviceDescription(product: board, state: .unknown, runningVersion: version))
        }
        guard let fields, let running = try SMPImageList(fields).running(0) else {
            return fail(
                UpdateError(.unsupportedDevice, "the device does not report the running image over SMP"))
        }
        version = running.version
        ask(.system(format: "i"))
    }

    package mutating func deadlinePassed() {
        fail(UpdateError(.noAnswer, "no answer over SMP within \(Self.limit.components.seconds) s"))
    }

    package mutating func linkEnded() {}
}
