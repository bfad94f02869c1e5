/// Extracts packets from the bytes of a console, which may also contain lines of a log.
public struct ConsoleDecoder: Sendable {
    /// The longest accepted line, in bytes. Zephyr sends at most 127 bytes in a line; other senders use longer lines.
    private static let longestLine = 16_384

    private var line: [UInt8] = []
    /// Whether the current line is longer than `longestLine`, so the decoder discards it.
    private var isOverlong = false
    /// The decoder of the current packet; nil if no packet has started.
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

    /// Finds the last marker in the line. A prompt may precede the marker, or part of a line from before a reset of the sender. The bytes
    /// of a marker do not occur in Base64.
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
        // More bytes than the announced length mean that lines of two packets were mixed.
        guard body.count == length, length >= 2, CRC16.checksum(body) == 0 else { return nil }
        return Array(body.dropLast(2))
    }
}
