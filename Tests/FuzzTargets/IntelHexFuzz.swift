import OTAFirmware

enum IntelHexFuzz {
    /// Small, so that two far records do not cost a second.
    private static let span = 1 << 16

    static func run(_ bytes: [UInt8]) -> String? {
        guard let hex = try? IntelHex(parsing: bytes, maximumSpan: span) else { return nil }
        return (1...span).contains(hex.bytes.count) ? nil : "an image of \(hex.bytes.count) bytes"
    }
}
