import OTAFirmware
import OTASigning
import Testing

/// The example of docs/bundle-format.md.
enum WorkedExample {
    static let image = (0..<600).map { UInt8($0 % 251) }

    static let envelope =
        Hex.decode(
            """
            4f5441460200590058020000000000000700000000000000 00b9556900000000
            db4f2ac25d140369324dbed60d7b8e314fdf1252c171f8513fb7dbf5cc92e88d
            02000500312e312e300180040064656d6f03800400010003000100000001 0040
            0021fe31dfa154a261e41b64ab5d62ccfe4bd1dfb5b7609f00a254a3d36fa7fc
            247090ad30ec7f378f11dcb0569e68e9cb0ba2f9856ebe12f9b86597a7ebbe61
            ee1f6165eddb802305
            """.filter { !$0.isWhitespace }) ?? []

    static let bytes = envelope + image

    static func bundle() throws -> SignedBundle { try SignedBundle(parsing: bytes) }

    static func trust() throws -> TrustStore { try TrustStore([PublicKey(bytes: RFC8032.test1.publicKey)]) }
}

/// Returns a bundle like the worked example, with the given changes.
func makeBundle(
    image: [UInt8] = WorkedExample.image, counter: UInt32 = 7, product: String = "demo",
    hardware: ClosedRange<UInt16>? = 1...3, requires: RequiredVersion? = nil, unknownFields: [ManifestField] = [],
    signedBy keys: [PrivateKey]
) throws -> SignedBundle {
    let manifest = try Manifest(
        imageFormat: .raw, imageSize: UInt32(image.count), securityCounter: counter, created: 1_767_225_600,
        imageDigest: SHA256.digest(of: image), version: #require(SemanticVersion("1.1.0")),
        product: #require(ProductName(product)), hardware: hardware.flatMap { HardwareRevisions(ranges: [$0]) },
        requires: requires, unknownFields: unknownFields)
    let signatures = try keys.map { key in
        try #require(
            BundleSignature(
                key.publicKey.algorithm, keyID: key.publicKey.id, signature: key.sign(manifest.bytes, in: .bundle)))
    }
    return try SignedBundle(envelope: Envelope(manifest: manifest, signatures: signatures), image: image)
}

extension SignedBundle {
    /// Returns the same bundle with a flipped bit in one signature: the first bit of S, if it is an Ed25519 signature.
    func spoiling(signatureBy key: PrivateKey) throws -> SignedBundle {
        let signatures = try envelope.signatures.map { signature in
            guard signature.keyID == key.publicKey.id else { return signature }
            var bytes = signature.signature
            bytes[32] ^= 1
            let algorithm = try #require(signature.algorithm)
            return try #require(BundleSignature(algorithm, keyID: signature.keyID, signature: bytes))
        }
        return try SignedBundle(
            envelope: Envelope(manifest: envelope.manifest, signatures: signatures), image: image)
    }
}
