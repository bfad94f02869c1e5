import OTAFirmware
import OTAUpdate

/// A rule of docs/ota-profile.md, and the steps that check whether a device follows it.
///
/// The rules are written from the specification. They do not use the device core.
struct CheckRule: Sendable {
    /// The state in which a rule begins. `DeviceCheck` opens a new link if the device may be in another state.
    enum Start: Sendable {
        /// Any state of the link and of the device.
        case any
        /// Both subscriptions are on.
        case link
        /// As `link`, and the state is *idle*.
        case idle
        /// As `idle`, and the link is new, so no BEGIN was accepted on it.
        case newLink
        /// As `newLink`, without subscriptions.
        case unsubscribed
    }

    /// The stable name of the rule, such as `unknown-opcode`.
    let name: String
    /// The title of the section of docs/ota-profile.md, as a link target.
    let section: String
    /// The behaviour of a correct device, as a sentence without a subject.
    let statement: String
    /// What to look for in the firmware if the rule fails.
    let fix: String
    let start: Start
    /// True if the other rules cannot be checked after this rule has failed.
    let isNecessary: Bool
    /// True if the rule is checked even after a necessary rule has failed.
    let isFinal: Bool
    /// Returns the reason why the rule cannot be checked; nil: check it.
    let skipped: @Sendable (CheckMemory) -> String?
    let steps: [CheckStep]

    init(
        _ name: String, _ section: String, _ statement: String, fix: String, start: Start = .link,
        isNecessary: Bool = false,
        isFinal: Bool = false, skipped: @escaping @Sendable (CheckMemory) -> String? = { _ in nil },
        _ steps: [CheckStep]...
    ) {
        (self.name, self.section, self.statement, self.fix) = (name, section, statement, fix)
        (self.start, self.isNecessary, self.isFinal) = (start, isNecessary, isFinal)
        (self.skipped, self.steps) = (skipped, steps.flatMap { $0 })
    }

    func result(_ verdict: CheckResult.Verdict, _ detail: String? = nil) -> CheckResult {
        CheckResult(
            rule: name, section: section, statement: statement, verdict: verdict, detail: detail,
            fix: verdict == .failed ? fix : nil)
    }
}

/// A command to the device, and the check of its outcome.
struct CheckStep: Sendable {
    enum Command: Sendable {
        /// Writes a request to Control and waits for its answer. The bytes are the opcode and the arguments, without the tag.
        case ask([UInt8])
        /// Writes to Control and waits only for the response of ATT.
        case write([UInt8])
        case send([[UInt8]])
        case writeData([UInt8])
        case read(Channel)
        /// Waits for this time, or until a notification of Progress matches. The outcome is the values that Progress has notified since the
        /// last `send`.
        case listen(Duration, until: @Sendable (ProgressValue) -> Bool)
        case newLink
        case nothing
    }
    enum Outcome: Sendable {
        /// The answer to `ask`.
        case answer(UInt8, results: [UInt8])
        case value([UInt8])
        case progress([[UInt8]])
        case refused(LinkError)
        /// No answer arrived in time.
        case silent
        case done
    }
    /// The next step of the rule, relative to this one: 1, or 0 or a negative number for a loop.
    typealias Check = @Sendable (inout CheckMemory, Outcome) throws(Deviation) -> Int

    let command: @Sendable (CheckMemory) -> Command
    let check: Check

    init(_ command: @escaping @Sendable (CheckMemory) -> Command, _ check: @escaping Check = { _, _ in 1 }) {
        (self.command, self.check) = (command, check)
    }
}

/// The difference between the device's behaviour and the rule, as a sentence without a full stop.
struct Deviation: Error {
    let text: String

    init(_ text: String) { self.text = text }
}

extension CheckStep {
    /// Changes the memory, and asks nothing.
    static func prepare(_ change: @escaping @Sendable (inout CheckMemory) throws(Deviation) -> Void) -> CheckStep {
        CheckStep({ _ in .nothing }) { (memory, _) throws(Deviation) in
            try change(&memory)
            return 1
        }
    }

    static let newLink = CheckStep { _ in .newLink }

    /// Sends values, and does not wait.
    static func send(_ values: @escaping @Sendable (CheckMemory) -> [[UInt8]]) -> CheckStep {
        CheckStep({ .send(values($0)) })
    }

    /// Asks the device and expects a status.
    static func ask(_ bytes: [UInt8], expecting status: DeviceStatus, _ name: String) -> CheckStep {
        CheckStep({ _ in .ask(bytes) }) { (_, outcome) throws(Deviation) in
            try outcome.expect(status, name)
            return 1
        }
    }

    static func ask(
        _ bytes: @escaping @Sendable (CheckMemory) -> [UInt8], expecting status: DeviceStatus, _ name: String
    ) -> CheckStep {
        CheckStep({ .ask(bytes($0)) }) { (_, outcome) throws(Deviation) in
            try outcome.expect(status, name)
            return 1
        }
    }

    /// Asks the device and expects the status *ok* with a position.
    static func position(
        _ bytes: @escaping @Sendable (CheckMemory) -> [UInt8], _ name: String,
        _ check: @escaping @Sendable (inout CheckMemory, Position) throws(Deviation) -> Void = { _, _ in }
    ) -> CheckStep {
        CheckStep({ .ask(bytes($0)) }) { (memory, outcome) throws(Deviation) in
            let position = try outcome.position(name)
            try check(&memory, position)
            return 1
        }
    }

    /// Reads Progress and expects a state.
    static func state(_ state: DeviceState, _ after: String) -> CheckStep {
        CheckStep({ _ in .read(ProfileChannel.progress) }) { (_, outcome) throws(Deviation) in
            let found = try outcome.progressValue()
            guard found.state == state else {
                throw Deviation("\(after), Progress has the state \(found.state), expected \(state)")
            }
            guard state == .envelope || state == .image || (found.position.offset == 0 && found.position.crc == 0)
            else { throw Deviation("no object is open, but Progress has an offset or a CRC that is not 0") }
            return 1
        }
    }
}

extension CheckStep.Outcome {
    /// - Throws: `Deviation` if the outcome is not an answer with this status.
    func expect(_ status: DeviceStatus, _ name: String) throws(Deviation) {
        let found = try answer(name).status
        guard found != status.rawValue else { return }
        throw Deviation("\(name) got the status \(Self.text(found)), expected \(Self.text(status.rawValue))")
    }

    func answer(_ name: String) throws(Deviation) -> (status: UInt8, results: [UInt8]) {
        switch self {
        case .answer(let status, let results): return (status, results)
        case .refused(let error): throw Deviation("the write of \(name) was refused: \(error.detail)")
        default: throw Deviation("\(name) got no answer in time")
        }
    }

    func position(_ name: String) throws(Deviation) -> Position {
        try expect(.ok, name)
        var reader = ByteReader(try answer(name).results)
        guard let position = try? Position(from: &reader), reader.remaining == 0 else {
            throw Deviation("the answer to \(name) has no position of 10 bytes")
        }
        return position
    }

    func bytes(_ name: String) throws(Deviation) -> [UInt8] {
        switch self {
        case .value(let bytes): return bytes
        case .refused(let error): throw Deviation("\(name) cannot be read: \(error.detail)")
        default: throw Deviation("the read of \(name) got no response in time")
        }
    }

    func progressValue() throws(Deviation) -> ProgressValue {
        let bytes = try bytes("Progress")
        do { return try ProgressValue(parsing: bytes) } catch { throw Deviation(error.context) }
    }

    /// The notifications of Progress.
    func notified() throws(Deviation) -> [ProgressValue] {
        guard case .progress(let values) = self else { return [] }
        var all: [ProgressValue] = []
        for value in values {
            do { all.append(try ProgressValue(parsing: value)) } catch {
                throw Deviation("a notification is malformed: \(error.context)")
            }
        }
        return all
    }

    static func text(_ status: UInt8) -> String {
        "\(status) (\(DeviceStatus(rawValue: status).map { "\($0.meaning)" } ?? "unknown"))"
    }
}
