package import OTAFirmware
package import OTASigning
import OTAUpdate

/// A signed image with random bytes. The key is that of RFC 8032, 7.1, test 1. The lab's peripheral trusts this key by default.
package struct FakeRelease: Sendable {
    package let bundle: VerifiedBundle
    package let key: PublicKey

    package init(bytes count: Int, version: SemanticVersion, product: ProductName) throws {
        let seed: [UInt8] = [
            0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c, 0xc4, 0x44, 0x49,
            0xc5,
            0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae, 0x7f, 0x60,
        ]
        let privateKey = try PrivateKey(seed: seed)
        var random = SplitMix64(seed: UInt64(count))
        let image = (0..<count).map { _ in UInt8.random(in: 0...255, using: &random) }
        let manifest = try Manifest(
            imageFormat: .raw, imageSize: UInt32(count), securityCounter: 2, created: 1_767_225_600,
            imageDigest: SHA256.digest(of: image), version: version, product: product)
        let signature = BundleSignature(
            .ed25519, keyID: privateKey.publicKey.id, signature: try privateKey.sign(manifest.bytes))
        let envelope = try Envelope(manifest: manifest, signatures: signature.map { [$0] } ?? [])
        key = privateKey.publicKey
        bundle = try Verifier(trust: try TrustStore([key])).verify(try SignedBundle(envelope: envelope, image: image))
    }
}
