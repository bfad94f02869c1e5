/// The format in which packets travel over a serial line. The values are those of the option `framing` of a serial address.
public enum SerialFraming: String, Sendable, CaseIterable {
    /// Lines of text on a console (``ConsoleFraming``), as in Zephyr's transports `UART` and `SHELL`, and in MCUboot's serial recovery.
    case console
    /// Packets without a frame, as in Zephyr's `CONFIG_MCUMGR_TRANSPORT_RAW_UART` and MCUboot's `BOOT_SERIAL_RAW_PROTOCOL`.
    case raw
    /// Packets with a CRC in COBS frames (``COBSFraming``), as in MCUboot's `BOOT_SERIAL_RAW_PROTOCOL_COBS`.
    case rawCOBS = "raw-cobs"

    /// The number of bytes that a frame adds to its packet in the receive buffer of the device.
    ///
    /// With `raw` and `rawCOBS`, a device with a buffer of 384 or 1024 bytes answers a packet of this length (observed with Zephyr 4.4 and
    /// MCUboot).
    public var bufferOverhead: Int { self == .console ? ConsoleFraming.bufferOverhead : 0 }

    /// The time after which the device discards an incomplete packet, if no further byte arrives.
    ///
    /// Only packets without a frame need it. It is 0.5 s more than the default of MCUboot's `BOOT_SERIAL_RAW_PROTOCOL_INPUT_TIMEOUT_MS`.
    public var discardTime: Duration { self == .raw ? .milliseconds(3500) : .zero }

    /// Returns the frame of a packet; nil if the packet is longer than `ConsoleFraming.longestPacket`.
    public func frame(carrying packet: [UInt8]) -> [UInt8]? {
        guard packet.count <= ConsoleFraming.longestPacket else { return nil }
        return switch self {
        case .console: ConsoleFraming.lines(carrying: packet)
        case .raw: packet
        case .rawCOBS: COBSFraming.frame(carrying: packet)
        }
    }
}

/// Extracts packets from the bytes of a serial line, in one framing or in all framings at the same time.
public struct SerialDecoder: Sendable {
    /// The framing; nil until the first packet if the framing is detected.
    public private(set) var framing: SerialFraming?
    private var console = ConsoleDecoder()
    private var cobs = COBSDecoder()
    private var raw: RawDecoder

    /// - Parameter framing: the framing of the line; nil: the first packet determines the framing.
    public init(_ framing: SerialFraming?) {
        self.framing = framing
        // Only a host detects the framing, and a host receives only answers.
        raw = RawDecoder(onlyAnswers: framing == nil)
    }

    /// Processes the next bytes.
    ///
    /// - Returns: the packets that these bytes complete.
    public mutating func decode(_ bytes: [UInt8]) -> [[UInt8]] {
        switch framing {
        case .console: return console.decode(bytes)
        case .rawCOBS: return cobs.decode(bytes)
        case .raw: return raw.decode(bytes)
        case nil:
            // Frames with a CRC come first, because other bytes can look like a packet without a frame.
            for (framing, packets) in [
                (SerialFraming.console, console.decode(bytes)), (.rawCOBS, cobs.decode(bytes)),
                (.raw, raw.decode(bytes)),
            ] where !packets.isEmpty {
                self.framing = framing
                return packets
            }
            return []
        }
    }
}

/// Extracts packets without frames. The header of a packet contains the length of the packet.
private struct RawDecoder: Sendable {
    private static let headerLength = 8

    /// Whether the decoder discards requests. A line that returns each received byte sends a query back, but not an answer.
    let onlyAnswers: Bool
    private var collected: [UInt8] = []

    init(onlyAnswers: Bool) { self.onlyAnswers = onlyAnswers }

    /// Discards bytes that cannot be a header, such as text of a boot log: a header starts with an operation from 0 to 3 in SMP version 1 or
    /// 2, and its flags are 0.
    mutating func decode(_ bytes: [UInt8]) -> [[UInt8]] {
        collected += bytes
        var packets: [[UInt8]] = []
        var start = 0
        while collected.count - start >= Self.headerLength {
            let header = collected[start..<(start + Self.headerLength)]
            // The operation of an answer is odd.
            guard header[start] & 0xF4 == 0, header[start + 1] == 0, !onlyAnswers || header[start] & 1 == 1 else {
                start += 1
                continue
            }
            let length = Self.headerLength + Int(header[start + 2]) << 8 + Int(header[start + 3])
            guard collected.count - start >= length else { break }
            packets.append(Array(collected[start..<(start + length)]))
            start += length
        }
        collected.removeFirst(start)
        return packets
    }
}
