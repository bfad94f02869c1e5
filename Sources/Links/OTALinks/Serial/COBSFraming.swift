internal import OTAFirmware

/// The framing of packets with COBS (Consistent Overhead Byte Stuffing) in MCUboot's raw serial recovery
/// (`BOOT_SERIAL_RAW_PROTOCOL_COBS`).
///
/// A frame contains a packet and the packet's CRC-16, big-endian. COBS replaces each byte 0, and a byte 0 ends the frame.
public enum COBSFraming {
    /// The code of a group of 254 bytes without a byte 0. No byte 0 follows this group.
    static let fullGroup: UInt8 = 0xFF

    /// Encodes a packet as a frame, with the byte 0 at the end.
    public static func frame(carrying packet: [UInt8]) -> [UInt8] {
        let checksum = CRC16.checksum(packet)
        var frame: [UInt8] = [0]
        var codeIndex = 0
        var code: UInt8 = 1
        for byte in packet + [UInt8(checksum >> 8), UInt8(checksum & 0xFF)] {
            if byte != 0 {
                frame.append(byte)
                code += 1
                if code != fullGroup { continue }
            }
            frame[codeIndex] = code
            codeIndex = frame.count
            frame.append(0)
            code = 1
        }
        frame[codeIndex] = code
        return frame + [0]
    }
}

/// Extracts packets from COBS frames. A damaged frame is discarded, and decoding continues after the next byte 0.
public struct COBSDecoder: Sendable {
    /// The maximum length of a frame in bytes. A longer frame is discarded.
    private static let longestFrame = 1 << 17

    private var frame: [UInt8] = []
    private var isOverlong = false

    public init() {}

    /// Processes the next bytes.
    ///
    /// - Returns: the packets that these bytes complete.
    public mutating func decode(_ bytes: some Sequence<UInt8>) -> [[UInt8]] {
        var packets: [[UInt8]] = []
        for byte in bytes {
            if byte == 0 {
                if !isOverlong, let packet = Self.packet(in: frame) { packets.append(packet) }
                frame.removeAll(keepingCapacity: true)
                isOverlong = false
            } else if frame.count < Self.longestFrame {
                frame.append(byte)
            } else {
                isOverlong = true
            }
        }
        return packets
    }

    private static func packet(in frame: [UInt8]) -> [UInt8]? {
        var body: [UInt8] = []
        var index = 0
        while index < frame.count {
            let code = frame[index]
            let end = index + Int(code)
            guard end <= frame.count else { return nil }
            body += frame[(index + 1)..<end]
            index = end
            if code != COBSFraming.fullGroup, index < frame.count { body.append(0) }
        }
        guard body.count > 2, CRC16.checksum(body) == 0 else { return nil }
        return Array(body.dropLast(2))
    }
}
