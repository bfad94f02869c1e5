import OTAFirmware
import OTASigning
import OTAUpdate
import Testing

/// An image of so many bytes, signed with a new key.
struct Release: Sendable {
    let bundle: VerifiedBundle
    let key: PublicKey
    var image: [UInt8] { bundle.bundle.image }

    init(bytes count: Int, version: String = "1.1.0", counter: UInt32 = 2, minimumBattery: UInt8? = nil) throws {
        var random = SplitMix64(seed: UInt64(count))
        let image = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        let privateKey = try PrivateKey.generate()
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(count), securityCounter: counter, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: image), version: try #require(SemanticVersion(version)),
            product: try #require(ProductName("demo")), minimumBattery: minimumBattery)
        let signature = try #require(
            BundleSignature(keyID: privateKey.publicKey.id, signature: try privateKey.sign(manifest.bytes)))
        let envelope = try Envelope(manifest: manifest, signatures: [signature])
        key = privateKey.publicKey
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }
}
