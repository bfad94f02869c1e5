/// How MCUmgr's packets go over a line that a console may share (Zephyr, `smp_transport.rst`, "UART/serial and console"):
/// a length (big-endian, of what follows), the packet and its CRC-16 (big-endian) in Base64, in lines of at most 127 bytes.
/// The first line begins with 06 09, the further ones with 04 14; a line feed ends each.
public enum ConsoleFraming {
    static let start: [UInt8] = [0x06, 0x09]
    static let continuation: [UInt8] = [0x04, 0x14]
    static let lineFeed = UInt8(ascii: "\n")
    /// Characters of Base64 in a line, whole groups of four: so it has 123 bytes, as PyPI's `smp` makes it, and there is room for a
    /// carriage return.
    static let longestText = 120

    /// Longest packet, in bytes: length and CRC have 16 bits.
    public static let longestPacket = Int(UInt16.max) - 2

    /// The lines that carry a packet; nil: it is longer than `longestPacket`.
    public static func lines(carrying packet: [UInt8]) -> [UInt8]? {
        guard packet.count <= longestPacket else { return nil }
        let body = bigEndian(UInt16(packet.count + 2)) + packet + bigEndian(CRC16.checksum(packet))
        let text = Base64.encode(body)
        var lines: [UInt8] = []
        for first in stride(from: 0, to: text.count, by: longestText) {
            lines += first == 0 ? start : continuation
            lines += text[first..<min(first + longestText, text.count)]
            lines.append(lineFeed)
        }
        return lines
    }

    private static func bigEndian(_ value: UInt16) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xFF)] }
}
