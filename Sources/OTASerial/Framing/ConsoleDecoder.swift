/// Finds packets in what comes over a console, between the lines of its log. A value: bytes go in as they come, whatever they are,
/// and whole packets come out.
public struct ConsoleDecoder: Sendable {
    /// Lines are at most 127 bytes, but other senders than Zephyr make longer ones.
    private static let longestLine = 16_384

    private var line: [UInt8] = []
    /// The line is longer than any can be, and is not kept.
    private var isOverlong = false
    /// The packet whose lines come; nil: none has begun.
    private var text: Base64.Decoder?

    public init() {}

    /// - Returns: the packets that are whole now.
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

    /// A prompt may stand before a marker, or the rest of a line whose sender was reset; none of its bytes occurs in Base64.
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
        // What is longer than announced was not sent as one packet.
        guard body.count == length, length >= 2, CRC16.checksum(body) == 0 else { return nil }
        return Array(body.dropLast(2))
    }
}
