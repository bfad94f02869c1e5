import OTAProfile

/// What a device of the profile tells. The first byte is a request's number, for the answer.
enum FrameFuzz {
    private static let requests: [Request] = [
        .begin(.image, size: 1, from: 0, digestPrefix: []), .sync(sequence: 0), .finish(.image),
        .apply(permanent: false),
        .confirm, .discard, .identify(seconds: 1),
    ]

    static func run(_ bytes: [UInt8]) -> String? {
        if let info = try? DeviceInfo(parsing: bytes) {
            if !(1...2047).contains(info.window) { return "a window of \(info.window) chunks" }
            if !(20...512).contains(info.longestValue) { return "Data values of \(info.longestValue) bytes" }
            if info.keys.isEmpty { return "a device without keys" }
        }
        if (try? ProgressValue(parsing: bytes)) != nil, bytes.count != 12 { return "Progress of \(bytes.count) bytes" }
        guard bytes.count >= 2 else { return nil }
        let request = requests[Int(bytes[0]) % requests.count]
        if let answer = try? Answer(to: request, tag: bytes[1], parsing: bytes), answer.opcode != request.opcode {
            return "the answer to another request"
        }
        return nil
    }
}
