import OTAFirmware
import Testing

/// The example in docs/bundle-format.md.
enum ExampleBundle {
    /// The documented bytes of manifest and signatures.
    static func envelopeBytes() throws -> [UInt8] {
        try hex(
            """
            4f544146 02005900 58020000 00000000 07000000 00000000 00b95569 00000000
            db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
            02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010040
            0021fe31 dfa154a2 61e41b64 ab5d62cc fe4bd1df b5b7609f 00a254a3 d36fa7fc
            247090ad 30ec7f37 8f11dcb0 569e68e9 cb0ba2f9 856ebe12 f9b86597 a7ebbe61
            ee1f6165 eddb8023 05
            """)
    }

    static let image = (0..<600).map { UInt8($0 % 251) }

    static func bytes() throws -> [UInt8] { try envelopeBytes() + image }

    /// The same manifest, created from its values.
    static func manifest() throws -> Manifest {
        try Manifest(
            imageFormat: .raw, imageSize: 600, securityCounter: 7, created: 1_767_225_600,
            imageDigest: try imageDigest(), version: try #require(SemanticVersion("1.1.0")),
            product: try #require(ProductName("demo")), hardware: HardwareRevisions("1..3"))
    }

    static func imageDigest() throws -> SHA256Digest {
        try digest("db4f2ac25d140369324dbed60d7b8e314fdf1252c171f8513fb7dbf5cc92e88d")
    }

    static func signature() throws -> BundleSignature {
        let signature = try hex(
            """
            e41b64ab5d62ccfe4bd1dfb5b7609f00a254a3d36fa7fc247090ad30ec7f378f
            11dcb0569e68e9cb0ba2f9856ebe12f9b86597a7ebbe61ee1f6165eddb802305
            """)
        let keyID = try keyID("21fe31dfa154a261")
        return try #require(BundleSignature(.ed25519, keyID: keyID, signature: signature))
    }
}
