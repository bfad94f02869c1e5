import OTAFirmware

/// What is taken for a bundle or an envelope has one encoding: written again it is the same.
enum BundleFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let bundle = try? SignedBundle(parsing: bytes), bundle.bytes != bytes { return "another bundle comes out" }
        if let envelope = try? Envelope(parsing: bytes) {
            if envelope.bytes != bytes { return "another envelope comes out" }
            if !(158...1332).contains(bytes.count) { return "an envelope of \(bytes.count) bytes" }
        }
        if let envelope = try? Envelope(parsingPrefix: bytes), !bytes.starts(with: envelope.bytes) {
            return "another envelope than the file begins with"
        }
        return nil
    }
}
