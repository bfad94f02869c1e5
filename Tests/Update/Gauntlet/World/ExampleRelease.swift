package import OTAFirmware
package import OTASigning
import OTAUpdate

/// A signed bundle with an image of a given size.
package struct ExampleRelease: PushedImage {
    package let bundle: VerifiedBundle
    package let key: PublicKey
    package let manifestDigest: SHA256Digest
    package var image: [UInt8] { bundle.image }

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
        manifestDigest = SHA256.digest(of: manifest.bytes)
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }
}
