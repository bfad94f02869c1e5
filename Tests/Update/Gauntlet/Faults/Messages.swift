package import OTAUpdate

/// Describes which bytes of a protocol's messages the faults can corrupt or falsify.
package protocol Messages: Sendable {
    /// Splits the values of one send into messages of one or more values.
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]]
    /// Returns the bytes of a value that may be corrupted on the way to the device.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int>
    /// Returns true if the notification is a complete message.
    static func isWhole(_ notification: [UInt8]) -> Bool
    /// Returns the bytes of a notification that hold the device's position.
    static func position(in notification: [UInt8]) -> Range<Int>?
    /// Returns the index of the byte that holds the tag or sequence number of the answered request.
    static func tag(in notification: [UInt8]) -> Int?
    /// Returns meaningless bytes to send after a notification.
    static func garbage(after notification: [UInt8], _ random: inout SplitMix64) -> [UInt8]
}

/// The messages of the GATT OTA profile. Each value is a message.
enum ProfileMessages: Messages {
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]] { values.map { [$0] } }
    /// Excludes the chunk's sequence number: the device must accept the chunk for the corruption to have an effect.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int> { min(2, value.count)..<value.count }
    static func isWhole(_ notification: [UInt8]) -> Bool { true }

    static func position(in notification: [UInt8]) -> Range<Int>? {
        notification.count > 10 ? notification.count - 10..<notification.count : nil
    }

    static func tag(in notification: [UInt8]) -> Int? {
        notification.count >= 3 && notification[0] & 0x80 != 0 ? 1 : nil
    }

    /// Never starts with a byte whose highest bit is set, because that marks an answer.
    static func garbage(after notification: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
        (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...127, using: &random) }
    }
}

/// The messages of SMP: a header of eight bytes and a CBOR map, split into values at any byte.
enum SMPMessages: Messages {
    private static let headerLength = 8
    private static let sequence = 6

    /// One send never contains two frames.
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]] { [values] }

    /// Allows all bytes of an upload request. All other requests arrive unchanged.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int> {
        isUpload(message.first ?? [], operation: 2) ? 0..<value.count : 0..<0
    }

    static func isWhole(_ notification: [UInt8]) -> Bool {
        notification.count >= headerLength
            && notification.count == headerLength + Int(notification[2]) << 8 + Int(notification[3])
    }

    /// Returns the bytes after the key `off`.
    static func position(in notification: [UInt8]) -> Range<Int>? {
        guard isWhole(notification), isUpload(notification, operation: 3) else { return nil }
        let key = Array("off".utf8)
        let start = (headerLength..<max(headerLength, notification.count - key.count)).first {
            notification[$0...].starts(with: key)
        }
        guard let start, start + key.count < notification.count - 1 else { return nil }
        return start + key.count..<notification.count - 1
    }

    static func tag(in notification: [UInt8]) -> Int? { isWhole(notification) ? sequence : nil }

    /// Returns noise, sometimes with the header of a next answer. The content is not valid CBOR.
    static func garbage(after notification: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
        let noise = (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        guard isWhole(notification), Bool.random(using: &random) else { return noise }
        var header = Array(notification.prefix(headerLength))
        header[2] = 0
        header[3] = UInt8(noise.count)
        header[sequence] &+= 1
        return header + noise
    }

    private static func isUpload(_ bytes: [UInt8], operation: UInt8) -> Bool {
        bytes.count >= headerLength && bytes[0] & 7 == operation && bytes[4] == 0 && bytes[5] == 1 && bytes[7] == 1
    }
}
