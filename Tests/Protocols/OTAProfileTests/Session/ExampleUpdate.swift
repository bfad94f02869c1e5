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
        4f544146 01005900 58020000 00000000 07000000 00000000 00b95569 00000000
        db4f2ac2 5d140369 324dbed6 0d7b8e31 4fdf1252 c171f851 3fb7dbf5 cc92e88d
        02000500 312e312e 30018004 0064656d 6f038004 00010003 00010000 00010000
        0021fe31 dfa154a2 61f5639b 13f6036a 91a635b7 87e33676 fe4b9c8b c32a9548
        7bb6c356 3add8eec ea6d8bb5 27c1f88a 189a344f f9ab4777 794be1cf 1e57535c
        ea0f52a0 cdd45cb1 09
        """)
    /// The first 8 bytes of the SHA-256 of the manifest.
    static let manifestPrefix: [UInt8] = [0x81, 0x6f, 0x42, 0x24, 0x24, 0xa3, 0x2d, 0x9c]
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
