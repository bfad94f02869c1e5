package import OTAUpdate

/// Runs complete updates in a world made from a seed. The same seed gives the same run, to the byte and the nanosecond.
package struct Gauntlet: Sendable {
    /// The two releases. The second has the higher security counter, so a device that has confirmed it refuses the first.
    private let bundles: [[ExampleRelease]]
    private let images: [[SMPRelease]]
    /// The worlds with encoded images have releases whose images are similar, and similar to the device's first image.
    private let encoded: [EncodedReleases]

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
        encoded = try pairs.map { first, _ in try EncodedReleases(bytes: first) }
        images = try pairs.map { first, second in
            try [
                SMPRelease(bytes: first, version: (1, 1, 0, 0), keySeed: 1),
                SMPRelease(bytes: second, version: (1, 2, 0, 0), keySeed: 1),
            ]
        }
    }

    /// The start of a transcript line that reports an offence.
    package static let offenceMark = "!! "

    /// Returns the command that plays a world again.
    package static func replay(_ seed: UInt64) -> String {
        "scripts/gauntlet --worlds 1 --first-seed \(seed) --transcript"
    }

    /// The result of a world.
    package struct Ending: Sendable {
        package var seed: UInt64
        package var offences: [String]
        /// The result of the last client that ran with faults.
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
            : fate.encoding != nil
                ? try GauntletRun<ProfileWire>(
                    fate, encoded[pair].releases, encoded[pair], seed: seed, keepsTranscript: keepsTranscript
                ).run()
                : try GauntletRun<ProfileWire>(fate, bundles[pair], seed: seed, keepsTranscript: keepsTranscript).run()
        let offences = try runHostileDevice(seed: seed)
        ending.offences += offences
        if keepsTranscript { ending.transcript += offences.map { Self.offenceMark + $0 } }
        return ending
    }

    /// Every tenth world also has a run against a hostile device.
    private func runHostileDevice(seed: UInt64) throws -> [String] {
        // Has its own generator, so that the worlds that existed before the hostile devices stay the same.
        var dice = Dice(seed: seed ^ 0x4C49_4152)
        guard dice.happens(0.1) else { return [] }
        let course = HostileRun { dice.number($0) }
        return seed.isMultiple(of: 2)
            ? try course.run(images[0][0], seed: seed) : try course.run(bundles[0][0], seed: seed)
    }
}
