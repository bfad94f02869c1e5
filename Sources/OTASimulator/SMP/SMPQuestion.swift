import OTAFirmware
import OTASMP

/// A packet as a server takes it, with the numbers as they stand in the header.
struct SMPQuestion {
    let version, operation, sequence, command: UInt8
    let group: UInt16
    /// The header announces no more than there is.
    let isWhole: Bool
    /// Nil: no CBOR map. No body is an empty map.
    let map: [String: CBORValue]?

    /// Nil: too short for a header, which is not answered.
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
