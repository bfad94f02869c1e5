import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

/// A session and a scripted device. The test compares the session's actions and sends the device's events.
struct Conversation {
    var session: UpdateSession
    var now = Duration.zero
    private(set) var reports: [UpdateProgress] = []
    private(set) var stages: [UpdateStage] = []
    private(set) var outcome: Result<UpdateReport, UpdateError>?
    /// Actions that the test has not checked yet, without the reports, the stages and the outcome.
    private var actions: [UpdateAction] = []

    /// The properties that the device reports.
    struct Device {
        var product = "demo"
        var hardware: UInt8 = 2
        var counter: UInt8 = 7
        var format: UInt8 = 0
        var largest: [UInt8] = [0, 0, 16, 0]
        var window: UInt8 = 64
        var restartSeconds: UInt16 = 10
        var trialSeconds: UInt16 = 60
        var key: [UInt8] = [0x21, 0xfe, 0x31, 0xdf, 0xa1, 0x54, 0xa2, 0x61]
        var running: [UInt8]?
        var held: [UInt8]?
        var longestEnvelope: Int?
        var version = "1.0.0"
        var state: UInt8 = 0
        var battery: UInt8?

        var info: [UInt8] {
            var fields: [(UInt8, [UInt8])] = [
                (1, [1]), (2, Array(product.utf8)), (3, [hardware, 0]), (4, [counter, 0, 0, 0]),
                (5, [format] + largest),
                (6, [0, 2, window, 0]),
                (7, [restartSeconds, trialSeconds].flatMap { [UInt8($0 & 255), UInt8($0 >> 8)] }), (8, key),
            ]
            if let running { fields.append((9, running)) }
            if let held { fields.append((10, held)) }
            if let longestEnvelope {
                fields.append((12, [UInt8(longestEnvelope & 255), UInt8(longestEnvelope >> 8)]))
            }
            return fields.flatMap { [$0.0, UInt8($0.1.count)] + $0.1 }
        }
        var progress: [UInt8] { [state] + [UInt8](repeating: 0, count: 11) }
    }

    /// - Parameter firstTag: The tag of the first request. The initializer searches for a seed that gives this tag.
    init(_ task: UpdateTask<VerifiedBundle>, firstTag: UInt8 = 0x21) throws {
        let fitting: UInt64? =
            (0..<10_000 as Range<UInt64>).first { seed in
                var random = SplitMix64(seed: seed)
                return UInt8.random(in: 0...255, using: &random) == firstTag &- 1
            }
        session = UpdateSession(try ProfileConversation(task), seed: try #require(fitting))
        tell(.started)
        expect(.connect())
    }

    mutating func tell(_ event: UpdateEvent) {
        for action in session.handle(event, at: now) {
            switch action {
            case .report(let progress): reports.append(progress)
            case .stage(let stage, _): stages.append(stage)
            case .finish(let report): outcome = .success(report)
            case .fail(let error): outcome = .failure(error)
            default: actions.append(action)
            }
        }
    }

    /// Advances the time to the session's deadline.
    mutating func waitForDeadline(sourceLocation: SourceLocation = #_sourceLocation) {
        guard let deadline = session.deadline else {
            Issue.record("no deadline", sourceLocation: sourceLocation)
            return
        }
        now = max(now, deadline)
        tell(.deadlinePassed)
    }

    mutating func expect(_ expected: UpdateAction..., sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(actions == expected, sourceLocation: sourceLocation)
        actions = []
    }

    /// Discards the unchecked actions, because the test does not check them.
    mutating func forget() { actions = [] }

    /// Expects that the session writes this request to Control and does nothing else. Then the device answers.
    mutating func expect(
        _ request: String, answering answer: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) {
        expect(
            .link(.write(ExampleUpdate.bytes(request), ProfileChannel.control)), sourceLocation: sourceLocation)
        tell(.link(.written(ProfileChannel.control)))
        if let answer { notify(answer) }
    }

    mutating func notify(_ hex: String, on channel: Channel = ProfileChannel.control) {
        tell(.link(.notified(ExampleUpdate.bytes(hex), channel)))
    }

    /// Brings the link up and sends the device's properties.
    ///
    /// - Parameter candidate: The address of the device if the link is to a candidate.
    mutating func comeUp(
        _ device: Device, valueLength: Int = 244, candidate: String? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        var channels: Set = [
            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
            ProfileChannel.version,
        ]
        if device.battery != nil { channels.insert(ProfileChannel.battery) }
        tell(
            .linkUp(LinkProperties(channels: channels, maximumValueLength: valueLength, candidate: candidate)))
        describe(device, sourceLocation: sourceLocation)
    }

    /// Answers the session's reads and subscriptions with the device's properties.
    mutating func describe(_ device: Device, sourceLocation: SourceLocation = #_sourceLocation) {
        let asked = actions
        actions = []
        #expect(asked.count == (device.battery == nil ? 5 : 6), sourceLocation: sourceLocation)
        for action in asked {
            switch action {
            case .link(.subscribe(let channel)): tell(.link(.subscribed(channel)))
            case .link(.read(ProfileChannel.info)): tell(.link(.value(device.info, ProfileChannel.info)))
            case .link(.read(ProfileChannel.progress)): tell(.link(.value(device.progress, ProfileChannel.progress)))
            case .link(.read(ProfileChannel.version)):
                tell(.link(.value(Array(device.version.utf8), ProfileChannel.version)))
            case .link(.read(ProfileChannel.battery)):
                tell(.link(.value([device.battery ?? 0], ProfileChannel.battery)))
            default: Issue.record("asked for \(action)", sourceLocation: sourceLocation)
            }
        }
    }

    var error: UpdateError.Code? {
        if case .failure(let error) = outcome { return error.code }
        return nil
    }
    var report: UpdateReport? { try? outcome?.get() }
}
