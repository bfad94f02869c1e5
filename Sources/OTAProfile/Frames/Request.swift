import OTAFirmware

/// The object that BEGIN opens for transfer.
package enum TransferObject: UInt8, Sendable {
    case envelope = 1
    case image = 2
}

/// A request, which the host writes to Control: `[opcode u8][tag u8][arguments]`, little-endian.
package enum Request: Equatable {
    /// Opens an object of `size` bytes. The device chooses the offset at which the transfer continues: `from` or lower.
    case begin(TransferObject, size: Int, from: UInt32, digestPrefix: [UInt8])
    /// Requests the device's position: a flush. `sequence` is the sequence number of the host's next chunk.
    case sync(sequence: UInt16)
    /// Verifies the open object.
    case finish(TransferObject)
    case apply(permanent: Bool)
    case confirm
    case discard
    case identify(seconds: UInt8)

    /// The value of `from` in BEGIN that makes the device resume at its own offset.
    package static let resume = UInt32.max

    package var opcode: UInt8 {
        switch self {
        case .begin: 1
        case .sync: 2
        case .finish: 3
        case .apply: 4
        case .confirm: 5
        case .discard: 6
        case .identify: 7
        }
    }

    /// The request's name in the profile.
    package var name: String {
        switch self {
        case .begin(.envelope, _, _, _): "BEGIN envelope"
        case .begin(.image, _, _, _): "BEGIN image"
        case .sync: "SYNC"
        case .finish(.envelope): "FINISH envelope"
        case .finish(.image): "FINISH image"
        case .apply: "APPLY"
        case .confirm: "CONFIRM"
        case .discard: "DISCARD"
        case .identify: "IDENTIFY"
        }
    }

    /// The time limit for the answer. It is longer for BEGIN and FINISH, because the device may read or erase flash.
    package var timeLimit: Duration {
        switch self {
        case .begin, .finish: .seconds(30)
        default: .seconds(10)
        }
    }

    package func bytes(tag: UInt8) -> [UInt8] {
        var writer = ByteWriter(reservingCapacity: 19)
        writer.write(opcode)
        writer.write(tag)
        switch self {
        case .begin(let object, let size, let from, let digestPrefix):
            writer.write(object.rawValue)
            writer.write(UInt32(clamping: size))
            writer.write(from)
            writer.write(digestPrefix)
        case .sync(let sequence): writer.write(sequence)
        case .apply(let permanent): writer.write(permanent ? 1 as UInt8 : 0)
        case .identify(let seconds): writer.write(seconds)
        case .finish, .confirm, .discard: break
        }
        return writer.bytes
    }
}

/// An answer that a device notifies on Control: `[0x80 | opcode][tag][status u8][results]`.
package struct ControlAnswer: Equatable {
    package var opcode: UInt8
    package var tag: UInt8
    package var status: DeviceStatus
    /// The device's position. Present only in answers to BEGIN and SYNC with status ok.
    package var position: Position?

    /// Parses a notification. Returns nil if it is the answer to another request; then only its first two bytes are parsed.
    package init?(to request: Request, tag: UInt8, parsing bytes: [UInt8]) throws(FrameError) {
        guard bytes.count >= 2, bytes[0] == 0x80 | request.opcode, bytes[1] == tag else { return nil }
        self = try ByteReader.parse("the answer to \(request.name)", bytes) { reader in
            _ = try reader.read(2)
            let status: UInt8 = try reader.read()
            guard let status = DeviceStatus(rawValue: status) else {
                throw FrameError(context: "unknown status \(status)")
            }
            let position: Position? =
                switch request {
                case .begin where status == .ok, .sync where status == .ok: try Position(from: &reader)
                default: nil
                }
            return ControlAnswer(opcode: request.opcode, tag: tag, status: status, position: position)
        }
    }

    private init(opcode: UInt8, tag: UInt8, status: DeviceStatus, position: Position?) {
        self.opcode = opcode
        self.tag = tag
        self.status = status
        self.position = position
    }
}
