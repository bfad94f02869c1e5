import OTAFirmware
import Testing

/// The example in docs/bundle-format.md.
enum ExampleBundle {
    /// The documented bytes of manifest and signatures.
    static func envelopeBytes() throws -> [UInt8] {
        try hex(
            """
            4f544146 01005900 58020000 00000000 07000000 00000000 00b95569 00000000
            db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
            02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010000
            0021fe31 dfa154a2 61f5639b 13f6036a 91a635b7 87e33676 fe4b9c8b c32a9548
            7bb6c356 3add8eec ea6d8bb5 27c1f88a 189a344f f9ab4777 794be1cf 1e57535c
            ea0f52a0 cdd45cb1 09
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
            f5639b13f6036a91a635b787e33676fe4b9c8bc32a95487bb6c3563add8eecea
            6d8bb527c1f88a189a344ff9ab4777794be1cf1e57535cea0f52a0cdd45cb109
            """)
        let keyID = try keyID("21fe31dfa154a261")
        return try #require(BundleSignature(keyID: keyID, signature: signature))
    }
}
