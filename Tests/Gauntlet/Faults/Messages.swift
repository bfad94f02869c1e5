package import OTAUpdate

/// Where a protocol's messages can be spoilt, and lied in.
package protocol Messages: Sendable {
    /// The messages in one send: each a value, or several.
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]]
    /// Which bytes of a message's value may be spoilt on their way to the device.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int>
    /// A notification is a message, and not a part of one.
    static func isWhole(_ notification: [UInt8]) -> Bool
    /// Where a notification says how far the device is.
    static func position(in notification: [UInt8]) -> Range<Int>?
    /// Which byte of a notification says what it answers.
    static func tag(in notification: [UInt8]) -> Int?
    /// Bytes that are nothing, after a notification.
    static func garbage(after notification: [UInt8], _ random: inout SplitMix64) -> [UInt8]
}

/// Those of the GATT OTA profile: each value is one.
enum ProfileMessages: Messages {
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]] { values.map { [$0] } }
    /// A chunk's sequence arrives, or the chunk does not fit.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int> { min(2, value.count)..<value.count }
    static func isWhole(_ notification: [UInt8]) -> Bool { true }

    static func position(in notification: [UInt8]) -> Range<Int>? {
        notification.count > 10 ? notification.count - 10..<notification.count : nil
    }

    static func tag(in notification: [UInt8]) -> Int? {
        notification.count >= 3 && notification[0] & 0x80 != 0 ? 1 : nil
    }

    /// Nothing that could be taken for an answer, which has the highest bit first.
    static func garbage(after notification: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
        (0..<Int.random(in: 0...20, using: &random)).map { _ in UInt8.random(in: 0...127, using: &random) }
    }
}

/// Those of SMP: a header of eight bytes and a map in CBOR, cut into values anywhere.
enum SMPMessages: Messages {
    private static let headerLength = 8
    private static let sequence = 6

    /// Two frames are never sent at a time.
    static func split(_ values: [[UInt8]]) -> [[[UInt8]]] { [values] }

    /// A chunk, all of it; what asks for more than to be stored arrives.
    static func spoilable(_ value: [UInt8], of message: [[UInt8]]) -> Range<Int> {
        isUpload(message.first ?? [], operation: 2) ? 0..<value.count : 0..<0
    }

    static func isWhole(_ notification: [UInt8]) -> Bool {
        notification.count >= headerLength
            && notification.count == headerLength + Int(notification[2]) << 8 + Int(notification[3])
    }

    /// What follows the key `off`.
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

    /// Noise, or what looks like the next answer and is no CBOR.
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
