/// Chooses the length of values over Bluetooth LE so that they fill the link-layer packets.
///
/// A packet carries 251 bytes. The L2CAP and ATT headers of a value take 7 bytes. So a value of 244 bytes fills one packet, and a
/// value of 495 bytes fills two. A value of 509 bytes would need a third packet, nearly empty.
package enum ChunkLength {
    /// The maximum length of an attribute value in ATT, in bytes.
    package static let longestAttribute = 512

    /// Returns the length for values.
    ///
    /// - Parameters:
    ///   - link: the maximum value length of the link, in bytes.
    ///   - device: the maximum value length of the device, in bytes, if it reports one.
    /// - Returns: the length of a value, in bytes.
    package static func planned(link: Int, device: Int = longestAttribute) -> Int {
        let limit = min(link, device, longestAttribute)
        return [495, 244].first { $0 <= limit } ?? limit
    }
}
