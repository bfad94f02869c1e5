import OTAFirmware
import OTASigning
package import OTAUpdate

/// Runs complete updates in a world made from a seed. The same seed gives the same run, to the byte and the nanosecond.
package struct Gauntlet: Sendable {
    /// The two releases. The second has the higher security counter, so a device that has confirmed it refuses the first.
    private let bundles: [[ExampleRelease]]
    private let images: [[SMPRelease]]
    /// The worlds with encoded images have releases whose images are similar, and similar to the device's first image.
    private let encoded: [EncodedReleases]
    /// The keys of additional Ed25519 signatures.
    private let signers: [PrivateKey]
    /// The key of ML-DSA signatures. Nil if libcrypto does not support ML-DSA.
    private let hybridSigner: PrivateKey?

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
        signers = try (2...7).map { try PrivateKey(seed: [UInt8](repeating: $0, count: 32)) }
        hybridSigner = SignatureAlgorithm.mlDSA44.isAvailable ? try PrivateKey.mlDSA44(seed: 9) : nil
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
        /// True if the world was also played with hybrid signatures.
        package var isHybrid = false
        package var links: Int
        package var resentBytes: Int
        package var transcriptHash: UInt64
        package var transcript: [String]

        fileprivate mutating func add(_ more: [String], _ keepsTranscript: Bool) {
            offences += more
            if keepsTranscript { transcript += more.map { Gauntlet.offenceMark + $0 } }
        }
    }

    package func play(seed: UInt64, keepsTranscript: Bool = false) throws -> Ending {
        let fate = Fate(seed: seed)
        let pair = Int(seed % UInt64(bundles.count))
        var ending =
            fate.speaksSMP
            ? try GauntletRun<SMPWire>(fate, images[pair], seed: seed, keepsTranscript: keepsTranscript).run()
            : try play(fate, pair, seed: seed, keepsTranscript: keepsTranscript)
        if let offences = try runHybrid(fate, pair, seed: seed) {
            ending.isHybrid = true
            ending.add(offences, keepsTranscript)
        }
        ending.add(try runHostileDevice(seed: seed), keepsTranscript)
        return ending
    }

    /// Plays a world of the profile. `hybridSigner` adds an ML-DSA signature to the releases.
    private func play(
        _ fate: Fate, _ pair: Int, hybridSigner: PrivateKey? = nil, seed: UInt64, keepsTranscript: Bool
    ) throws -> Ending {
        let encoded = fate.encoding == nil ? nil : encoded[pair]
        let signers = signers.prefix(fate.signing.more) + (hybridSigner.map { [$0] } ?? [])
        let releases = try (encoded?.releases ?? bundles[pair]).map { release in
            signers.isEmpty && fate.signing.strangers.isEmpty
                ? release : try release.adding(Array(signers), strangers: fate.signing.strangers)
        }
        return try GauntletRun<ProfileWire>(fate, releases, encoded, seed: seed, keepsTranscript: keepsTranscript).run()
    }

    /// If libcrypto supports ML-DSA, every fifth world of the profile is also played with a hybrid device. Without ML-DSA, this part is
    /// missing, and all other worlds are the same, to the byte.
    private func runHybrid(_ fate: Fate, _ pair: Int, seed: UInt64) throws -> [String]? {
        var dice = Dice(seed: seed ^ 0x4859_4252)
        guard let hybridSigner, !fate.speaksSMP, dice.happens(0.2) else { return nil }
        var fate = fate
        (fate.signing.isHybrid, fate.signing.required) = (true, 1)
        return try play(fate, pair, hybridSigner: hybridSigner, seed: seed, keepsTranscript: false).offences
            .map { "with hybrid signatures: \($0)" }
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

extension PrivateKey {
    /// Returns an ML-DSA-44 key from a seed of 32 equal bytes (RFC 9881, section 6: the seed-only form).
    fileprivate static func mlDSA44(seed: UInt8) throws -> PrivateKey {
        let header = Hex.decode("3034020100300b060960864801650304031104228020") ?? []
        let text = Base64.encode(header + [UInt8](repeating: seed, count: 32))
        let lines = [Array(text.prefix(64)), Array(text.dropFirst(64))].map { String(decoding: $0, as: UTF8.self) }
        let pem = "-----BEGIN PRIVATE KEY-----\n\(lines[0])\n\(lines[1])\n-----END PRIVATE KEY-----\n"
        return try PrivateKey(pem: SecretBytes(copying: pem.utf8))
    }
}
