/// The framing of MCUmgr packets on a serial line that a console may share (Zephyr, `smp_transport.rst`, "UART/serial and console").
///
/// A frame contains a length, the packet and its CRC-16. The length (16 bits, big-endian) is that of the packet and the CRC. The CRC is
/// big-endian. The frame is encoded in Base64 and split into lines of at most 127 bytes. The first line starts with 06 09, each further
/// line with 04 14. A line feed ends each line.
public enum ConsoleFraming {
    static let start: [UInt8] = [0x06, 0x09]
    static let continuation: [UInt8] = [0x04, 0x14]
    static let lineFeed = UInt8(ascii: "\n")
    /// The number of Base64 characters in a line, a multiple of four. A line then has 123 bytes, as in the package `smp` of PyPI, and
    /// there is space for a carriage return.
    static let longestText = 120

    /// The longest packet, in bytes. The length has 16 bits and includes the 2 bytes of the CRC.
    public static let longestPacket = Int(UInt16.max) - 2

    /// Encodes a packet as lines. Returns nil if it is longer than `longestPacket`.
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
