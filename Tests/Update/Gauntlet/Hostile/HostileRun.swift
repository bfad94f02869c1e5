import OTAEngine
import OTAProfile
import OTASMP
import OTASigning
import OTASimulator
import OTAUpdate

/// Runs one command against a hostile device. It may end in any way, but within the limits of `ProgressBudget`.
package struct HostileRun: Sendable {
    /// The command to run against the hostile device.
    package enum Task: CaseIterable, Sendable { case push, pushPermanent, status, confirm, discard }

    /// The longest time outside the transfer: the device's announced times sum to at most 80 minutes, and a push applies an
    /// image at most three times.
    private static let longestAftermath = Duration.seconds(3 * 80 * 60)
    /// The factor for requests, headers, and the window in flight when the limit is reached.
    private static let overhead = 2

    private var plan: HostilePlan
    private let task: Task

    /// - Parameter draw: returns a number in the range, from a random generator or a fuzzer.
    package init(draw: (ClosedRange<Int>) -> Int) {
        plan = HostilePlan(draw: draw)
        task = draw(0...9) < 6 ? .push : Task.allCases[draw(0...Task.allCases.count - 1)]
        plan.offerEncodings(draw: draw)
    }

    /// A push to a device that offers encodings, and that is hostile in the given way.
    package init(pushTo encoding: HostilePlan.Encoding, draw: (ClosedRange<Int>) -> Int) {
        self.init(draw: draw)
        plan.encoding = encoding
        self = HostileRun(plan, .push)
    }

    private init(_ plan: HostilePlan, _ task: Task) { (self.plan, self.task) = (plan, task) }

    /// Runs one command with a small image, for fuzzers.
    ///
    /// - Returns: the first offence, or nil.
    package static func offence(overSMP isSMP: Bool, draw: (ClosedRange<Int>) -> Int) -> String? {
        let course = HostileRun(draw: draw)
        do {
            let offences =
                isSMP ? try course.run(smallImage.get(), seed: 1) : try course.run(smallBundle.get(), seed: 1)
            return offences.first
        } catch {
            return "virtual time stalled with a hostile device: \(error)"
        }
    }

    private static let smallBundle = Result {
        try ExampleRelease(bytes: 2000, version: "1.1.0", counter: 2, keySeed: 1)
    }
    private static let smallImage = Result { try SMPRelease(bytes: 2000, version: (1, 1, 0, 0), keySeed: 1) }

    /// Runs the command over the profile and returns the offences.
    package func run(_ release: ExampleRelease, seed: UInt64) throws -> [String] {
        // No two of these bases are equal, so the host tries three of them.
        let bases = Bases(
            (1...4).map { (Firmware.changed(release.image, changes: release.image.count / 1000, seed: $0), nil) })
        let encoder = plan.encoding == .none ? nil : bases.encoder(for: release)
        let task: UpdateTask<VerifiedBundle> =
            switch task {
            case .push:
                .push(
                    release.bundle,
                    UpdateOptions(resume: plan.variant != 1 ? .automatic : .never, bases: bases.list))
            case .pushPermanent: .push(release.bundle, UpdateOptions(ending: .permanent))
            case .status: .status
            case .confirm: .confirm
            case .discard: .discard(erasesImage: true)
            }
        return try run(
            ProfileConversation(task), HostileProfileDevice(plan, release, isOnTrial: isOnTrial),
            release.image.count, seed, encoder: encoder)
    }

    /// Runs the command over SMP and returns the offences.
    package func run(_ release: SMPRelease, seed: UInt64) throws -> [String] {
        let images = [SMPImage(release.verified)]
        let task: UpdateTask<[SMPImage]> =
            switch task {
            case .push: .push(images, UpdateOptions())
            case .pushPermanent: .push(images, UpdateOptions(ending: .permanent))
            case .status: .status
            case .confirm: .confirm
            case .discard: .discard(erasesImage: true)
            }
        return try run(
            SMPConversation(task), HostileSMPDevice(plan, release, isOnTrial: isOnTrial), release.image.count, seed)
    }

    private var isOnTrial: Bool { [.confirm, .discard].contains(task) }

    private func run(
        _ conversation: some Conversation, _ device: some HostilePeer, _ imageBytes: Int, _ seed: UInt64,
        encoder: UpdateRunner<VirtualTime>.Encoder? = nil
    ) throws -> [String] {
        let time = VirtualTime()
        let (tally, counter) = (Tally(), Counter())
        let session = UpdateSession(conversation, seed: seed)
        let mortal = MortalSession(session, tally, diesAt: nil) { _, _, actions in
            for case .link(.send(let values, _)) in actions { counter.bytes += values.reduce(0) { $0 + $1.count } }
        }
        let transport = HostileTransport(device, time)
        let duration = try time.run {
            let start = time.now
            _ = try? await UpdateRunner(clock: time, encoder: encoder).run(
                mortal, over: transport, interrupts: AsyncStream<Void> { $0.finish() })
            return start.duration(to: time.now)
        }
        var offences: [String] = []
        let longest = ProgressBudget.longestTime(ofImage: imageBytes) + Self.longestAftermath
        if duration > longest {
            offences.append(
                "a command against a hostile device took \(duration), more than \(longest): \(plan), \(task)")
        }
        let most = Self.overhead * (ProgressBudget.mostBytes(ofImage: imageBytes) + imageBytes)
        if counter.bytes > most {
            offences.append(
                "a command sent \(counter.bytes) bytes to a hostile device, more than \(most): \(plan), \(task)")
        }
        if tally.events >= MortalSession.mostEvents {
            offences.append(
                "a command against a hostile device did not end within \(tally.events) events: \(plan), \(task)")
        }
        return offences
    }
}

/// Under virtual time everything runs on one thread.
private final class Counter: @unchecked Sendable {
    var bytes = 0
}
