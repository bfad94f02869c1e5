package import OTAUpdate

/// Whole updates in a world that a seed has made: the same seed gives the same course, to the byte and the nanosecond.
package struct Gauntlet: Sendable {
    /// Two releases, of which the second has the higher security counter: a device that runs it for good refuses the first.
    private let bundles: [[ExampleRelease]]
    private let images: [[SMPRelease]]

    /// Images of 16 to 64 KiB.
    package init() throws {
        let sizes = [16_384, 20_000, 30_001, 40_960, 49_999, 65_536]
        let pairs = sizes.indices.map { (sizes[$0], sizes[($0 + 3) % sizes.count] - 7) }
        bundles = try pairs.map { first, second in
            try [
                ExampleRelease(bytes: first, version: "1.1.0", counter: 2, keySeed: 1),
                ExampleRelease(bytes: second, version: "1.2.0", counter: 3, keySeed: 1),
            ]
        }
        images = try pairs.map { first, second in
            try [
                SMPRelease(bytes: first, version: (1, 1, 0, 0), keySeed: 1),
                SMPRelease(bytes: second, version: (1, 2, 0, 0), keySeed: 1),
            ]
        }
    }

    /// How the line of a transcript begins that tells what must not be.
    package static let offenceMark = "!! "

    /// What to type to see a world again.
    package static func replay(_ seed: UInt64) -> String {
        "scripts/gauntlet --worlds 1 --first-seed \(seed) --transcript"
    }

    /// What became of a world.
    package struct Ending: Sendable {
        package var seed: UInt64
        package var offences: [String]
        /// How the last client with faults around it ended.
        package var isConfirmed: Bool
        package var error: UpdateError.Code?
        package var restarts: Int
        package var links: Int
        package var resentBytes: Int
        package var transcriptHash: UInt64
        package var transcript: [String]
    }

    package func play(seed: UInt64, keepsTranscript: Bool = false) throws -> Ending {
        let fate = Fate(seed: seed)
        let pair = Int(seed % UInt64(bundles.count))
        var ending =
            fate.speaksSMP
            ? try GauntletRun<SMPWire>(fate, images[pair], seed: seed, keepsTranscript: keepsTranscript).run()
            : try GauntletRun<ProfileWire>(fate, bundles[pair], seed: seed, keepsTranscript: keepsTranscript).run()
        let offences = try runHostileDevice(seed: seed)
        ending.offences += offences
        if keepsTranscript { ending.transcript += offences.map { Self.offenceMark + $0 } }
        return ending
    }

    /// In every tenth world a host meets a lying device as well.
    private func runHostileDevice(seed: UInt64) throws -> [String] {
        // From numbers of their own, so that the worlds from before the hostile devices are still the same.
        var dice = Dice(seed: seed ^ 0x4C49_4152)
        guard dice.happens(0.1) else { return [] }
        let course = HostileRun { dice.number($0) }
        return seed.isMultiple(of: 2)
            ? try course.run(images[0][0], seed: seed) : try course.run(bundles[0][0], seed: seed)
    }
}
