/// How long a value is chosen over Bluetooth, so that link-layer packets are full.
///
/// A packet carries 251 bytes, 7 of them L2CAP and ATT headers: a value of 495 bytes fills two of them, one of 244 fills
/// one; 509 would need a third, nearly empty.
package enum ChunkLength {
    /// The longest value that ATT knows.
    package static let longestAttribute = 512

    /// - Parameters:
    ///   - link: longest value that the link carries, in bytes.
    ///   - device: longest value that the device takes, in bytes, where it tells.
    /// - Returns: the length of a value in bytes.
    package static func planned(link: Int, device: Int = longestAttribute) -> Int {
        let limit = min(link, device, longestAttribute)
        return [495, 244].first { $0 <= limit } ?? limit
    }
}
