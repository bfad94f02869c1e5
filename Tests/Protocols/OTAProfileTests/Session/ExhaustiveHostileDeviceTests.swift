import OTAProfile
import OTASigning
import OTAUpdate
import Testing

/// Runs sessions with devices that have random faults. Each session must end, and each of its requests must be allowed.
@Suite("Profile sessions with faulty devices, exhaustive") struct ExhaustiveHostileDeviceTests {
    private static let worlds: UInt64 = 6000

    /// Runs one session for each seed and returns the number of sessions for each outcome.
    private func play(_ release: HostileRelease, _ task: (UInt64) -> UpdateTask<VerifiedBundle>) throws -> [String: Int]
    {
        var endings: [String: Int] = [:]
        for seed in 0..<Self.worlds {
            var world = try HostileWorld(task(seed), release, seed: seed)
            world.play()
            #expect(world.ledger.offences.isEmpty, "seed \(seed)")
            switch world.outcome {
            case .success(let report):
                endings["\(report.outcome)", default: 0] += 1
                if report.transfer?.encoding == .lzma2 { endings["encoded", default: 0] += 1 }
            case .failure(let error): endings[error.code.rawValue, default: 0] += 1
            case nil: Issue.record("seed \(seed): no end after \(world.steps) steps and \(world.now)")
            }
        }
        return endings
    }

    @Test(
        "every push to a faulty device ends, and the session follows the profile",
        arguments: [(1, true), (600, true), (600, false), (20_000, true)] as [(bytes: Int, isTried: Bool)])
    func everyPushEnds(bytes: Int, isTried: Bool) throws {
        let release = try HostileRelease(bytes: bytes, isTried: isTried)
        let endings = try play(release) { seed in
            var random = SplitMix64(seed: seed)
            let trial: UpdateOptions.Ending = Bool.random(using: &random) ? .confirm : .trial
            return .push(
                release.bundle,
                UpdateOptions(
                    resume: Bool.random(using: &random) ? .automatic : .never, ending: isTried ? trial : .permanent,
                    bases: HostileStream.bases)
            )
        }
        // The random devices must include correct and faulty ones.
        for ending in ["confirmed", "alreadyRunning", "link-lost", "protocol-violation", "device-busy", "interrupted"] {
            #expect(endings[ending, default: 0] > 20, "\(ending): \(endings)")
        }
        // An image of one byte does not become smaller.
        #expect(bytes == 1 || endings["encoded", default: 0] > 500, "\(endings)")
        if isTried { #expect(endings["onTrial(seconds: 60)", default: 0] > 20, "\(endings)") }
    }

    @Test(
        "every status, confirm, discard and identify task with a faulty device ends, and the session follows the profile"
    )
    func everyOtherTaskEnds() throws {
        let release = try HostileRelease(bytes: 600, isTried: true)
        let tasks: [UpdateTask<VerifiedBundle>] = [.status, .confirm, .discard(), .identify(seconds: 3)]
        let endings = try play(release) { tasks[Int($0 % 4)] }
        for ending in ["done", "confirmed", "not-in-trial", "link-lost", "device-busy"] {
            #expect(endings[ending, default: 0] > 0, "\(ending): \(endings)")
        }
    }
}
