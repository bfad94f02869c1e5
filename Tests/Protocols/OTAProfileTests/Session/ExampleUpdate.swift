import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

/// The example bundle of docs/bundle-format.md, signed with the key of the first test in RFC 8032.
enum ExampleUpdate {
    static let publicKey: [UInt8] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e, 0xe1,
        0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
    ]
    static let envelope: [UInt8] = bytes(
        """
        4f544146 02005900 58020000 00000000 07000000 00000000 00b95569 00000000
        db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
        02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010040
        0021fe31 dfa154a2 61e41b64 ab5d62cc fe4bd1df b5b7609f 00a254a3 d36fa7fc
        247090ad 30ec7f37 8f11dcb0 569e68e9 cb0ba2f9 856ebe12 f9b86597 a7ebbe61
        ee1f6165 eddb8023 05
        """)
    /// The first 8 bytes of the SHA-256 of the manifest.
    static let manifestPrefix: [UInt8] = [0x53, 0xe0, 0xf6, 0xa7, 0x7c, 0xd7, 0x31, 0x85]
    static let image = (0..<600).map { UInt8($0 % 251) }

    static func bundle() throws -> VerifiedBundle {
        let trust = try TrustStore([try PublicKey(bytes: publicKey)])
        return try Verifier(trust: trust).verify(try SignedBundle(parsing: envelope + image))
    }

    /// Decodes hexadecimal digits. Spaces and line breaks are ignored.
    static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.filter { !$0.isWhitespace }.compactMap(\.hexDigitValue)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
