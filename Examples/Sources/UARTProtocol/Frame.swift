/// One frame of the protocol. A frame is exactly one value of the RX or the TX characteristic:
///
/// | bytes | content |
/// |---|---|
/// | 0 | bits 0 and 1: 0 data, 1 ACK, 2 NACK; bit 2: another fragment of the message follows; bit 3: the sender asks for an ACK |
/// | 1–2 | sequence number, little-endian. Data: the number of this frame. ACK and NACK: the number of the next expected frame |
/// | 3–6 | receipt. Data: a random number. ACK and NACK: the receipt of the last frame before the next expected one; 0 before the first frame |
/// | 7… | data: a fragment of a message. ACK and NACK: empty |
/// | last 2 | CRC-16 of all earlier bytes, little-endian (``CRC16``) |
public struct Frame: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        case data(isLast: Bool, asksForAck: Bool, [UInt8])
        /// All frames before the sequence number have arrived.
        case ack
        /// All frames before the sequence number have arrived, and the frame with the number has not arrived.
        case nack
    }

    /// The number of bytes in addition to the data.
    public static let overhead = 9

    public var kind: Kind
    public var sequence: UInt16
    /// A random number of a data frame, or its repetition as the proof that the frame has arrived. Otherwise an end could confirm frames that
    /// are still queued, and request more of them without a limit.
    public var receipt: UInt32

    public init(_ kind: Kind, _ sequence: UInt16, receipt: UInt32) {
        self.kind = kind
        self.sequence = sequence
        self.receipt = receipt
    }

    /// Parses a value of a characteristic.
    public init(bytes: [UInt8]) throws(FrameError) {
        guard bytes.count >= Self.overhead else { throw .tooShort }
        let end = bytes.count - 2
        guard CRC16.checksum(of: bytes[..<end]) == UInt16(bytes[end]) | UInt16(bytes[end + 1]) << 8 else {
            throw .wrongChecksum
        }
        sequence = UInt16(bytes[1]) | UInt16(bytes[2]) << 8
        receipt = bytes[3..<7].reversed().reduce(0) { $0 << 8 | UInt32($1) }
        switch bytes[0] {
        case 0, 4, 8, 12:
            kind = .data(isLast: bytes[0] & 4 == 0, asksForAck: bytes[0] & 8 != 0, Array(bytes[7..<end]))
        case 1 where end == 7: kind = .ack
        case 2 where end == 7: kind = .nack
        default: throw .unknownKind
        }
    }

    /// The value of the characteristic.
    public var bytes: [UInt8] {
        let (first, data): (UInt8, [UInt8]) =
            switch kind {
            case .data(let isLast, let asksForAck, let data): ((isLast ? 0 : 4) | (asksForAck ? 8 : 0), data)
            case .ack: (1, [])
            case .nack: (2, [])
            }
        let number = [UInt8(truncatingIfNeeded: sequence), UInt8(sequence >> 8)]
        let checked = [first] + number + (0..<4).map { UInt8(truncatingIfNeeded: receipt >> (8 * $0)) } + data
        let checksum = CRC16.checksum(of: checked)
        return checked + [UInt8(truncatingIfNeeded: checksum), UInt8(checksum >> 8)]
    }
}

/// The reason why a value is not a frame.
public enum FrameError: Error, Sendable, Hashable {
    case tooShort, wrongChecksum, unknownKind
}

/// The CRC-16 of the frames: CRC-16/IBM-3740, often named CCITT-FALSE. The polynomial is 0x1021, the initial value 0xFFFF. The CRC of
/// "123456789" is 0x29B1.
public enum CRC16 {
    public static func checksum(of bytes: some Sequence<UInt8>) -> UInt16 {
        bytes.reduce(0xFFFF) { $0 << 8 ^ table[Int(UInt8($0 >> 8) ^ $1)] }
    }

    private static let table: [UInt16] = (0..<256).map { byte in
        (0..<8).reduce(UInt16(byte) << 8) { value, _ in value << 1 ^ (value & 0x8000 == 0 ? 0 : 0x1021) }
    }
}
