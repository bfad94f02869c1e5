/// The 24 bytes in front of an ESP-IDF image.
struct EspressifHeader {
    static let length: UInt64 = 24

    let segmentCount: Int
    let flashSize: String?
    let entryPoint: UInt32
    let chipID: UInt16
    let chipRevisions: ClosedRange<UInt16>?
    let hasDigest: Bool

    init(_ bytes: [UInt8]) throws(ImageError) {
        var reader = ByteReader(bytes)
        let segmentCount: UInt8
        let hasDigest: UInt8
        do {
            _ = try reader.read(1)
            segmentCount = try reader.read()
            _ = try reader.read(1)
            flashSize = Self.flashSizes[try reader.read(UInt8.self) >> 4]
            entryPoint = try reader.read()
            _ = try reader.read(4)
            chipID = try reader.read()
            _ = try reader.read(1)
            let lowest = try reader.read(UInt16.self)
            let highest = try reader.read(UInt16.self)
            chipRevisions = lowest <= highest ? lowest...highest : nil
            _ = try reader.read(4)
            hasDigest = try reader.read()
        } catch {
            throw ImageError(error)
        }
        guard (1...16).contains(segmentCount) else {
            throw ImageError(
                .badImageHeader, offset: 1, expected: "an ESP-IDF image (it begins with e9) of 1 to 16 segments",
                found: "\(segmentCount)")
        }
        guard hasDigest <= 1 else {
            throw ImageError(
                .badImageHeader, offset: 23, expected: "an ESP-IDF image (it begins with e9) with 0 or 1 for a digest",
                found: "\(hasDigest)")
        }
        self.segmentCount = Int(segmentCount)
        self.hasDigest = hasDigest == 1
    }

    /// The upper half of the byte at offset 3.
    private static let flashSizes: [UInt8: String] = [
        0: "1MB", 1: "2MB", 2: "4MB", 3: "8MB", 4: "16MB", 5: "32MB", 6: "64MB", 7: "128MB",
    ]
}
