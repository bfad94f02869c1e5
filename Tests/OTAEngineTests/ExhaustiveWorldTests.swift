import OTAProfile
import OTASimulator
import OTAUpdate
import Testing

/// Whole updates in random worlds, several faults at once. Whatever happens the device has something to boot, what runs is
/// the old image or the new one, and a push that says *confirmed* is right.
@Suite struct ExhaustiveWorldTests {
    private static let worlds = 2000
    private static let release = Result { try Release(bytes: 30_000) }

    /// The faults of a world, and how many clients are killed in it before one is left alone.
    private struct Fate {
        var radio = RadioModel()
        var faults = FaultPlan()
        var deaths: [Int?] = []
        var window = 64

        init(seed: UInt64) {
            var random = SplitMix64(seed: seed)
            func happens(_ probability: Double) -> Bool { Double.random(in: 0..<1, using: &random) < probability }
            func part() -> Double { Double.random(in: 0...1, using: &random) }
            radio.mtu = [23, 185, 247, 498, 517][Int.random(in: 0..<5, using: &random)]
            radio.perEvent = Int.random(in: 1...6, using: &random)
            radio.interval = .microseconds([7500, 15000, 30000, 50000][Int.random(in: 0..<4, using: &random)])
            window = [1, 2, 7, 16, 64, 2047][Int.random(in: 0..<6, using: &random)]
            if happens(0.4) { radio.loss = part() * 0.3 }
            if happens(0.4) { faults.gap = part() * 0.1 }
            if happens(0.2) { faults.notificationLoss = part() * 0.02 }
            if happens(0.3) { faults.notificationRefusal = part() * 0.5 }
            if happens(0.4) { faults.dropAt = (0..<Int.random(in: 1...3, using: &random)).map { _ in part() } }
            if happens(0.3) { faults.resetAt = [part()] }
            if happens(0.3) { faults.outOfReach = .milliseconds(Int.random(in: 0...20_000, using: &random)) }
            if happens(0.3) {
                faults.powerCuts = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                    PowerCut(
                        operation: Int.random(in: 1...60, using: &random),
                        moment: PowerCut.Moment.allCases[Int.random(in: 0..<3, using: &random)])
                }
            }
            if happens(0.3) { faults.cutAfterDevicePackets = [Int.random(in: 1...150, using: &random)] }
            while happens(0.3), deaths.count < 3 { deaths.append(Int.random(in: 1...80, using: &random)) }
        }
    }

    @Test func nothingIsEverLost() throws {
        var confirmed = 0
        for seed in 1...UInt64(Self.worlds) {
            let fate = Fate(seed: seed)
            let world = try World(
                try Self.release.get(), radio: fate.radio, faults: fate.faults, seed: seed
            ) { $0.window = fate.window }
            let resume = ProfileTask.push(world.release.bundle, PushOptions(resume: true))
            let runs = try world.run(
                Array(repeating: resume, count: fate.deaths.count + 1), deaths: fate.deaths, seed: seed)
            let last = try #require(runs.last)
            #expect(!world.device.isUnbootable && world.device.flashViolationCount == 0, "seed \(seed)")
            switch last.outcome {
            case .success:
                confirmed += 1
                #expect(world.runsNewImage, "seed \(seed)")
            case .failure(let error):
                let running = world.device.runningImage
                #expect(
                    running == nil || running == world.factoryImage || running == world.release.image,
                    "seed \(seed)")
                #expect(
                    [.linkLost, .wentBack, .didNotReturn].contains(error.code),
                    "seed \(seed): \(error.code) \(error.context)")
            }
        }
        #expect(confirmed > Self.worlds * 8 / 10)
    }
}
