package import OTAFirmware
package import OTASigning
import OTAUpdate

/// A signed bundle with an image of a given size.
package struct ExampleRelease: PushedImage {
    package let bundle: VerifiedBundle
    package let key: PublicKey
    /// The keys of all signatures that a device must verify. The first is `key`.
    package private(set) var keys: [PublicKey]
    package let manifestDigest: SHA256Digest
    package var image: [UInt8] { bundle.image }
    /// The length of the envelope that a device with `keys` receives, in bytes.
    package var receivedLength: Int {
        let signatures = bundle.envelope.signatures.filter { signature in keys.contains { $0.id == signature.keyID } }
        return signatures.reduce(bundle.envelope.manifestBytes.count + 4) { $0 + 12 + $1.signature.count }
    }

    /// - Parameters:
    ///   - count: the size of the image, which has random bytes.
    ///   - keySeed: the seed of the key; nil makes a new key.
    package init(
        bytes count: Int, version: String = "1.1.0", counter: UInt32 = 2, minimumBattery: UInt8? = nil,
        keySeed: UInt8? = nil
    ) throws {
        var random = SplitMix64(seed: UInt64(count))
        let image = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        try self.init(
            image: image, version: version, counter: counter, minimumBattery: minimumBattery, keySeed: keySeed)
    }

    /// - Parameter keySeed: the seed of the key; nil makes a new key.
    package init(
        image: [UInt8], version: String = "1.1.0", counter: UInt32 = 2, minimumBattery: UInt8? = nil,
        keySeed: UInt8? = nil
    ) throws {
        struct NoName: Error {}
        let privateKey = try keySeed.map { try PrivateKey(seed: [UInt8](repeating: $0, count: 32)) } ?? .generate()
        guard let version = SemanticVersion(version), let product = ProductName("demo") else { throw NoName() }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(image.count), securityCounter: counter, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: image), version: version, product: product, minimumBattery: minimumBattery)
        guard
            let signature = BundleSignature(
                .ed25519, keyID: privateKey.publicKey.id, signature: try privateKey.sign(manifest.bytes))
        else { throw NoName() }
        let envelope = try Envelope(manifest: manifest, signatures: [signature])
        key = privateKey.publicKey
        keys = [key]
        manifestDigest = SHA256.digest(of: manifest.bytes)
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }

    private init(_ bundle: VerifiedBundle, keys: [PublicKey]) {
        (self.bundle, key, self.keys) = (bundle, keys[0], keys)
        manifestDigest = bundle.manifestDigest
    }

    /// Returns the same release with more signatures. `strangers` are entries by keys that no device trusts, each with the number of an
    /// algorithm and the length of its signature.
    package func adding(
        _ signers: [PrivateKey], strangers: [(algorithm: UInt8, length: Int)] = []
    ) throws -> ExampleRelease {
        func entry(_ algorithm: UInt8, _ id: [UInt8], _ signature: [UInt8]) -> [UInt8] {
            [algorithm, 0, UInt8(signature.count & 0xFF), UInt8(signature.count >> 8)] + id + signature
        }
        let manifest = bundle.envelope.manifestBytes
        var entries = bundle.envelope.signatures.map { entry($0.algorithmNumber, $0.keyID.bytes, $0.signature) }
        for signer in signers {
            let key = signer.publicKey
            entries.append(entry(key.algorithm.rawValue, key.id.bytes, try signer.sign(manifest, in: .bundle)))
        }
        for (number, stranger) in strangers.enumerated() {
            let id = [UInt8](repeating: UInt8(number), count: 8)
            entries.append(entry(stranger.algorithm, id, [UInt8](repeating: 0x5A, count: stranger.length)))
        }
        entries.sort { $0[4..<12].lexicographicallyPrecedes($1[4..<12]) }
        let envelope = try Envelope(parsing: manifest + [UInt8(entries.count), 0, 0, 0] + entries.joined())
        let keys = keys + signers.map(\.publicKey)
        return ExampleRelease(
            try Verifier(trust: try TrustStore(keys)).verify(try SignedBundle(envelope: envelope, image: image)),
            keys: keys)
    }
}
