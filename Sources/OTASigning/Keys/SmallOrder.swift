/// The points of Curve25519 (Edwards form) whose order divides 8. Anyone can forge a signature for such a public key without a
/// private key: with S = 1 and R the base point, the signature is valid for one message in eight, or for every message.
enum SmallOrder {
    /// All encodings of these points, including those with y ≥ p, without the sign bit of x (y, little-endian).
    /// Source: "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko 2020), table 1, and libsodium's blocklist.
    private static let encodings: Set<[UInt8]> = [
        [0] + zeros + [0],  // y = 0, order 4
        [1] + zeros + [0],  // y = 1, order 1
        [0xec] + ones + [0x7f],  // y = p - 1, order 2
        [0xed] + ones + [0x7f],  // y = p, that is 0
        [0xee] + ones + [0x7f],  // y = p + 1, that is 1
        [  // order 8
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
            0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ],
        [  // order 8
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
            0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ],
    ]
    private static let zeros = [UInt8](repeating: 0, count: 30)
    private static let ones = [UInt8](repeating: 0xff, count: 30)

    /// Returns whether these 32 bytes encode such a point, with either sign of x.
    static func contains(_ bytes: [UInt8]) -> Bool {
        guard let last = bytes.last else { return false }
        return encodings.contains(bytes.dropLast() + [last & 0x7f])
    }
}
