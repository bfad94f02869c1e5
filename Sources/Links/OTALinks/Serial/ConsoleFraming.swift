internal import OTAFirmware

/// The framing of MCUmgr packets on a serial line (Zephyr, `smp_transport.rst`, "UART/serial and console"). The serial line may also
/// carry the text of a console.
///
/// A frame contains a length, a packet and the packet's CRC-16. The length is the number of bytes of the packet and the CRC together. The
/// length and the CRC have 16 bits each, big-endian.
///
/// The frame is encoded in Base64 and split into text lines of at most 127 bytes. The first text line starts with the bytes 06 09
/// (hexadecimal). Each further text line starts with the bytes 04 14. A line feed ends each text line.
public enum ConsoleFraming {
    static let start: [UInt8] = [0x06, 0x09]
    static let continuation: [UInt8] = [0x04, 0x14]
    static let lineFeed = UInt8(ascii: "\n")
    /// The maximum number of Base64 characters in a text line, as in the Python package `smp`. A full line has 123 bytes: 2 bytes at the
    /// start, 120 characters and a line feed. Base64 has groups of four characters. With the next possible number, 124, a full line would
    /// have 127 bytes, the maximum. No byte would be left for an additional carriage return.
    static let longestText = 120

    /// The maximum length of a packet, in bytes. The frame's length field has 16 bits, and its value includes the 2 bytes of the CRC.
    public static let longestPacket = Int(UInt16.max) - 2

    /// The number of bytes that a frame adds to its packet in the receive buffer of the device: the length and the CRC. A device with a
    /// buffer of 384 bytes drops a packet of 381 bytes without an answer (observed with Zephyr 4.4 and with MCUboot's serial recovery).
    public static let bufferOverhead = 4

    /// Encodes a packet as lines. Returns nil if the packet is longer than `longestPacket`.
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

/// Extracts packets from the bytes of a serial line. The bytes may also contain log lines of a console.
public struct ConsoleDecoder: Sendable {
    /// The maximum length of an accepted line, in bytes. Zephyr sends at most 127 bytes in a line, but other senders use longer lines.
    private static let longestLine = 16_384

    private var line: [UInt8] = []
    /// Whether the current line is longer than `longestLine`. The decoder discards such a line.
    private var isOverlong = false
    /// The Base64 decoder of the current packet; nil if no packet has started.
    private var text: Base64.Decoder?

    public init() {}

    /// Processes the next bytes.
    ///
    /// - Returns: the packets that these bytes complete.
    public mutating func decode(_ bytes: some Sequence<UInt8>) -> [[UInt8]] {
        var packets: [[UInt8]] = []
        for byte in bytes {
            if byte == ConsoleFraming.lineFeed {
                if !isOverlong, let packet = endLine() { packets.append(packet) }
                line.removeAll(keepingCapacity: true)
                isOverlong = false
            } else if line.count < Self.longestLine {
                line.append(byte)
            } else {
                isOverlong = true
            }
        }
        return packets
    }

    private mutating func endLine() -> [UInt8]? {
        guard let (marker, rest) = lastMarker() else { return nil }
        if marker == ConsoleFraming.start { text = Base64.Decoder() }
        guard var text else { return nil }
        guard text.append(rest) else {
            self.text = nil
            return nil
        }
        self.text = text
        return packet(in: text.bytes)
    }

    /// Returns the last marker in the line and the Base64 text after the marker. A marker is ``ConsoleFraming/start`` or
    /// ``ConsoleFraming/continuation``.
    ///
    /// The line may contain other bytes before the marker, such as a prompt or an incomplete line from before a reset. The Base64 text
    /// cannot contain a marker, because the bytes of a marker are not Base64 characters.
    private func lastMarker() -> (marker: [UInt8], rest: ArraySlice<UInt8>)? {
        guard line.count > 1 else { return nil }
        for first in line.indices.dropLast().reversed() {
            let marker = [line[first], line[first + 1]]
            guard marker == ConsoleFraming.start || marker == ConsoleFraming.continuation else { continue }
            var rest = line[(first + 2)...]
            if rest.last == UInt8(ascii: "\r") { rest.removeLast() }
            return (marker, rest)
        }
        return nil
    }

    private mutating func packet(in bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count >= 2 else { return nil }
        let length = Int(bytes[0]) << 8 | Int(bytes[1])
        guard bytes.count >= 2 + length else { return nil }
        text = nil
        let body = bytes[2...]
        // If the text has more bytes than the length field specifies, the lines of two packets are mixed. The decoder discards these
        // packets.
        guard body.count == length, length >= 2, CRC16.checksum(body) == 0 else { return nil }
        return Array(body.dropLast(2))
    }
}
