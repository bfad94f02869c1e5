import OTAFirmware

/// The object that BEGIN opens for transfer. The raw value is the number of the object in BEGIN.
package enum TransferObject: UInt8, Sendable {
    case envelope = 1
    case image = 2
}

/// A request that the host writes to Control: `[opcode u8][tag u8][arguments]`, little-endian.
package enum Request: Equatable {
    /// Opens an object of `size` bytes for transfer.
    ///
    /// The device answers with the offset at which the transfer continues. This offset is at most `from`. `digestPrefix` is the first
    /// 8 bytes of the object's SHA-256.
    case begin(TransferObject, size: Int, from: UInt32, digestPrefix: [UInt8])
    /// Opens the image for transfer as an LZMA2 stream.
    ///
    /// The device answers with the offset in the image at which the stream must start. This offset is at most `from`. The size and the
    /// digest of the image are in the accepted manifest. `base` is the image that the device must run; nil if the stream has no base.
    case beginEncoded(from: UInt32, base: Base?)
    /// The flush: requests the device's ``Position``.
    ///
    /// `sequence` is the sequence number of the host's next chunk. The device compares `sequence` with the sequence number that it expects,
    /// and so detects a loss of the last chunks.
    case sync(sequence: UInt16)
    /// Verifies the open object. The device must have received the object completely.
    case finish(TransferObject)
    /// Marks the verified image for boot, either permanently or for a trial.
    case apply(permanent: Bool)
    /// Makes the image on trial permanent.
    case confirm
    /// Discards the partial upload. During a trial, also makes the device roll back.
    case discard
    /// Makes the device blink for this number of seconds. 0 stops the blinking.
    case identify(seconds: UInt8)

    /// The image whose bytes are the start of the dictionary of an LZMA2 stream.
    package struct Base: Equatable {
        /// The size in bytes.
        package var size: UInt32
        /// The first 8 bytes of the SHA-256.
        package var digestPrefix: [UInt8]

        package init(size: UInt32, digestPrefix: [UInt8]) {
            self.size = size
            self.digestPrefix = digestPrefix
        }
    }

    /// The number of the object in BEGIN of an encoded image. An encoded image is the object `TransferObject.image` in another form.
    private static let encodedImage: UInt8 = 3
    /// The number of the encoding LZMA2, in BEGIN and Info.
    static let lzma2: UInt8 = 1
    /// The value of `from` in BEGIN that makes the device resume at its own offset.
    package static let resume = UInt32.max

    package var opcode: UInt8 {
        switch self {
        case .begin, .beginEncoded: 1
        case .sync: 2
        case .finish: 3
        case .apply: 4
        case .confirm: 5
        case .discard: 6
        case .identify: 7
        }
    }

    /// The name of the request in the profile, for messages to the user.
    package var name: String {
        switch self {
        case .begin(.envelope, _, _, _): "BEGIN envelope"
        case .begin(.image, _, _, _): "BEGIN image"
        case .beginEncoded: "BEGIN encoded image"
        case .sync: "SYNC"
        case .finish(.envelope): "FINISH envelope"
        case .finish(.image): "FINISH image"
        case .apply: "APPLY"
        case .confirm: "CONFIRM"
        case .discard: "DISCARD"
        case .identify: "IDENTIFY"
        }
    }

    /// The time limit for the answer. BEGIN and FINISH have a longer limit, because the device may read or erase flash for them.
    package var timeLimit: Duration {
        switch self {
        case .begin, .beginEncoded, .finish: .seconds(30)
        default: .seconds(10)
        }
    }

    /// Returns the bytes of the request.
    ///
    /// - Parameter tag: the number that the device copies into its answer.
    package func bytes(tag: UInt8) -> [UInt8] {
        var writer = ByteWriter(reservingCapacity: 20)
        writer.write(opcode)
        writer.write(tag)
        switch self {
        case .begin(let object, let size, let from, let digestPrefix):
            writer.write(object.rawValue)
            writer.write(UInt32(clamping: size))
            writer.write(from)
            writer.write(digestPrefix)
        case .beginEncoded(let from, let base):
            writer.write(Self.encodedImage)
            writer.write(Self.lzma2)
            writer.write(from)
            writer.write(base?.size ?? 0)
            writer.write(base?.digestPrefix ?? [UInt8](repeating: 0, count: 8))
        case .sync(let sequence): writer.write(sequence)
        case .apply(let permanent): writer.write(permanent ? 1 as UInt8 : 0)
        case .identify(let seconds): writer.write(seconds)
        case .finish, .confirm, .discard: break
        }
        return writer.bytes
    }
}

/// The device's answer to a request. It is a notification of Control: `[0x80 | opcode][tag u8][status u8][results]`.
package struct ControlAnswer: Equatable {
    /// The opcode of the request, without the bit 0x80 of the answer.
    package var opcode: UInt8
    package var tag: UInt8
    package var status: DeviceStatus
    /// The device's position in an answer to BEGIN or SYNC with the status *ok*; nil in all other answers.
    package var position: Position?

    /// Parses a notification of Control.
    ///
    /// - Returns: nil if the notification is not the answer to `request`: the opcode or the tag differs, or the notification has fewer than
    ///   2 bytes. The rest of such a notification is not checked.
    /// - Throws: ``FrameError`` if the answer to `request` has a wrong length or an unknown status.
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
                case .begin where status == .ok, .beginEncoded where status == .ok, .sync where status == .ok:
                    try Position(from: &reader)
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
