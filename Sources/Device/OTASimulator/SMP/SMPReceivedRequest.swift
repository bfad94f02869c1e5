import OTAFirmware
import OTASMP

/// A parsed SMP request packet. The fields of the header are plain numbers, because they can have values that SMP does not define.
struct SMPReceivedRequest {
    let version, operation, sequence, command: UInt8
    let group: UInt16
    /// Whether the packet contains all bytes of its body. The header states the length of the body.
    let isWhole: Bool
    /// The body as a CBOR map. An empty body is an empty map. Nil if the body is not a map.
    let map: [String: CBORValue]?

    /// Parses a packet. Returns nil if the packet is shorter than a header (8 bytes). The server does not answer such a packet.
    init?(_ bytes: [UInt8]) {
        guard bytes.count >= 8 else { return nil }
        version = bytes[0] >> 3 & 3
        operation = bytes[0] & 7
        let length = Int(bytes[2]) << 8 | Int(bytes[3])
        group = UInt16(bytes[4]) << 8 | UInt16(bytes[5])
        sequence = bytes[6]
        command = bytes[7]
        isWhole = bytes.count >= 8 + length
        let body = bytes.dropFirst(8).prefix(length)
        map = body.isEmpty ? [:] : (try? CBORDecoder.decode(body))?.map
    }

    func answer(_ fields: SMPServer.Fields, version: UInt8) -> [UInt8] {
        let body = IndefiniteCBOR.encode(.map(fields))
        var writer = ByteWriter(reservingCapacity: 8 + body.count)
        writer.write(version << 3 | (operation + 1) & 7)
        writer.write(0 as UInt8)
        writer.write(UInt16(clamping: body.count), .bigEndian)
        writer.write(group, .bigEndian)
        writer.write(sequence)
        writer.write(command)
        writer.write(body)
        return writer.bytes
    }
}

/// Assembles packets from written values. A value is a whole packet or a part of a packet, as in Zephyr's `smp_bt.c` and
/// `smp_reassembly.c`.
struct SMPReassembler {
    private static let headerLength = 8

    let reassembles: Bool
    let bufferSize: Int
    private var collected: [UInt8] = []

    init(reassembles: Bool, bufferSize: Int) {
        self.reassembles = reassembles
        self.bufferSize = bufferSize
    }

    /// Whether an incomplete packet occupies a buffer.
    var isInMidPacket: Bool { !collected.isEmpty }

    mutating func reset() { collected = [] }

    /// Adds a value to the current packet. The first value of a packet needs a free buffer. Without a free buffer, the server drops the
    /// value, and the next value is the start of a packet.
    ///
    /// - Parameter hasRoom: whether a buffer is free.
    /// - Returns: the packet that this value completes. Nil if the packet is still incomplete, or if the server drops the packet.
    mutating func add(_ value: [UInt8], hasRoom: Bool) -> [UInt8]? {
        guard reassembles else { return hasRoom && value.count <= bufferSize ? value : nil }
        if collected.isEmpty {
            guard hasRoom, value.count >= Self.headerLength, Self.length(of: value) <= bufferSize else { return nil }
        }
        collected += value
        let length = Self.length(of: collected)
        guard collected.count >= length else { return nil }
        defer { collected = [] }
        // If the value contains more bytes than the packet needs, the server drops the whole packet.
        return collected.count == length ? collected : nil
    }

    private static func length(of packet: [UInt8]) -> Int { headerLength + Int(packet[2]) << 8 + Int(packet[3]) }
}

/// An encoder for CBOR in the format of Zephyr's server. Maps and arrays have indefinite length and end with a break byte (0xFF). Map
/// entries keep the given order.
enum IndefiniteCBOR {
    typealias Field = (key: String, value: Value)

    enum Value {
        case scalar(CBORValue)
        case list([Value])
        case map([Field])
    }

    static func encode(_ value: Value) -> [UInt8] {
        switch value {
        case .scalar(let scalar): CBOREncoder.encode(scalar)
        case .list(let items): [0x9F] + items.flatMap(encode) + [0xFF]
        case .map(let fields):
            [0xBF] + fields.flatMap { CBOREncoder.encode(.text($0.key)) + encode($0.value) } + [0xFF]
        }
    }
}
