import OTAFirmware

/// What is written to Control: `[opcode u8][tag u8][arguments]`, little-endian.
package enum Request: Equatable {
    /// Opens an object of so many bytes; the device goes on at an offset of its choice, `from` or below.
    case begin(TransferObject, size: Int, from: UInt32, digestPrefix: [UInt8])
    /// The flush; `sequence` is the host's next.
    case sync(sequence: UInt16)
    /// Judges the open object.
    case finish(TransferObject)
    case apply(permanent: Bool)
    case confirm
    case discard
    case identify(seconds: UInt8)

    /// BEGIN's `from` where the device is to go on from what it holds.
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

    /// How long the answer may take: BEGIN and FINISH may read or erase flash.
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
