import OTAFirmware
import OTASMP

/// A request packet with the numeric fields of its header.
struct SMPQuestion {
    let version, operation, sequence, command: UInt8
    let group: UInt16
    /// Whether the packet contains at least as many bytes as its header states.
    let isWhole: Bool
    /// The body as a CBOR map; nil if it is not a map. An absent body is an empty map.
    let map: [String: CBORValue]?

    /// Parses a packet. Returns nil if it is too short for a header; the server sends no response to it.
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
