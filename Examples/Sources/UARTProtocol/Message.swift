public import OTAFirmware

/// A message between the two ends. The first byte is the kind. All numbers are little-endian.
public enum Message: Sendable, Hashable {
    /// 1: the central greets. The protocol version (1 byte), the number of the conversation (8 bytes), and the number of texts that the
    /// central has received in it (4 bytes).
    case hello(version: UInt8, conversation: UInt64, received: UInt32)
    /// 2: the peripheral answers. The protocol version (1 byte), the number of the conversation (8 bytes), the toggle (1 byte: 1 if it is
    /// on, otherwise 0), and the number of texts and requests of the toggle that the peripheral has received in the conversation (4 bytes).
    case helloAck(version: UInt8, conversation: UInt64, toggle: Bool, received: UInt32)
    /// 3: text in UTF-8.
    case text(String)
    /// 4: from the central: turn the toggle on (1) or off (0). From the peripheral: the state of the toggle.
    case toggle(Bool)
    /// 5: the central requests the image, or its rest. Four bytes: the number of bytes that the central already has. Then, if the central
    /// knows it, the SHA-256 of the image to which these bytes belong.
    case getImage(offset: UInt32, SHA256Digest?)
    /// 6: the peripheral starts to send the image. 40 bytes: size, offset of the first sent byte, SHA-256.
    case image(size: UInt32, offset: UInt32, SHA256Digest)
    /// 7: the next bytes of the image.
    case imageData([UInt8])
    /// 8: the peripheral refuses a message. One byte: the reason.
    case refusal(Refusal)

    public static let version: UInt8 = 1

    public init(bytes: [UInt8]) throws(Refusal) {
        let data = bytes.dropFirst()
        switch (bytes.first, data.count) {
        case (1, 13):
            self = .hello(
                version: bytes[1], conversation: Self.number(data.dropFirst()),
                received: Self.number(data.dropFirst(9)))
        case (2, 14) where bytes[10] <= 1:
            self = .helloAck(
                version: bytes[1], conversation: Self.number(data.dropFirst()), toggle: bytes[10] == 1,
                received: Self.number(data.dropFirst(10)))
        case (3, _):
            guard let text = String(validating: data, as: UTF8.self) else { throw .malformed }
            self = .text(text)
        case (4, 1) where bytes[1] <= 1: self = .toggle(bytes[1] == 1)
        case (5, 4): self = .getImage(offset: Self.number(data), nil)
        case (5, 36): self = .getImage(offset: Self.number(data), try Self.digest(data.dropFirst(4)))
        case (6, 40):
            self = .image(
                size: Self.number(data), offset: Self.number(data.dropFirst(4)), try Self.digest(data.dropFirst(8)))
        case (7, _): self = .imageData(Array(data))
        case (8, 1): self = .refusal(Refusal(rawValue: bytes[1]) ?? .malformed)
        default: throw .malformed
        }
    }

    public var bytes: [UInt8] {
        switch self {
        case .hello(let version, let conversation, let received):
            [1, version] + Self.bytes(of: conversation) + Self.bytes(of: received)
        case .helloAck(let version, let conversation, let toggle, let received):
            [2, version] + Self.bytes(of: conversation) + [toggle ? 1 : 0] + Self.bytes(of: received)
        case .text(let text): [3] + text.utf8
        case .toggle(let on): [4, on ? 1 : 0]
        case .getImage(let offset, let digest): [5] + Self.bytes(of: offset) + (digest?.bytes ?? [])
        case .image(let size, let offset, let digest):
            [6] + Self.bytes(of: size) + Self.bytes(of: offset) + digest.bytes
        case .imageData(let data): [7] + data
        case .refusal(let refusal): [8, refusal.rawValue]
        }
    }

    private static func number<Number: FixedWidthInteger>(_ bytes: ArraySlice<UInt8>) -> Number {
        bytes.prefix(Number.bitWidth / 8).reversed().reduce(0) { $0 << 8 | Number($1) }
    }

    private static func bytes(of number: some FixedWidthInteger) -> [UInt8] {
        (0..<number.bitWidth / 8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
    }

    private static func digest(_ bytes: ArraySlice<UInt8>) throws(Refusal) -> SHA256Digest {
        guard let digest = SHA256Digest(bytes: bytes) else { throw .malformed }
        return digest
    }
}

/// The reason why an end refuses a message.
public enum Refusal: UInt8, Error, Sendable, Hashable, CaseIterable, CustomStringConvertible {
    /// The message is malformed, or this end does not expect it.
    case malformed = 1
    /// The other end uses another version of the protocol.
    case unknownVersion = 2
    case noImage = 3

    public var description: String {
        switch self {
        case .malformed: "A message is malformed."
        case .unknownVersion:
            "The other end does not support version \(Message.version) of the protocol. Use the same ble-uart at both ends."
        case .noImage: "The peripheral has no image."
        }
    }
}
