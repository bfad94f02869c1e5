import OTAFirmware

/// One packet of SMP, the Simple Management Protocol (Zephyr, `smp_protocol.rst`): eight bytes, big-endian, and a CBOR map.
///
///     byte 0   3 bits 0, 2 bits version, 3 bits operation
///          1   flags, 0
///       2, 3   length of the body
///       4, 5   group
///          6   sequence
///          7   command
package struct SMPFrame: Sendable, Equatable {
    package enum Version: UInt8, Sendable {
        /// SMP version 1: all errors are `{rc}`.
        case first = 0
        /// SMP version 2: a group has errors of its own.
        case second = 1
    }
    package enum Operation: UInt8, Sendable {
        case read, readAnswer, write, writeAnswer
    }
    package static let headerLength = 8

    package var version: Version
    package var operation: Operation
    package var group: UInt16
    package var sequence: UInt8
    package var command: UInt8
    package var body: [UInt8]

    package init(
        version: Version, operation: Operation, group: UInt16, sequence: UInt8, command: UInt8, body: [UInt8]
    ) {
        self.version = version
        self.operation = operation
        self.group = group
        self.sequence = sequence
        self.command = command
        self.body = body
    }

    /// Exactly one frame.
    package init(parsing bytes: [UInt8]) throws(SMPFrameError) {
        guard bytes.count >= Self.headerLength else {
            throw SMPFrameError(context: "\(bytes.count) bytes are no SMP header (\(Hex.encode(bytes)))")
        }
        guard bytes.count == Self.length(announcedBy: bytes) else {
            throw SMPFrameError(context: "\(bytes.count) bytes are not the length that the header tells", header: bytes)
        }
        guard bytes[0] >> 5 == 0, let version = Version(rawValue: bytes[0] >> 3 & 3),
            let operation = Operation(rawValue: bytes[0] & 7)
        else { throw SMPFrameError(context: "version or operation unknown", header: bytes) }
        self.init(
            version: version, operation: operation, group: UInt16(bytes[4]) << 8 | UInt16(bytes[5]),
            sequence: bytes[6], command: bytes[7], body: Array(bytes.dropFirst(Self.headerLength)))
    }

    package var bytes: [UInt8] {
        var writer = ByteWriter(reservingCapacity: Self.headerLength + body.count)
        writer.write(version.rawValue << 3 | operation.rawValue)
        writer.write(0 as UInt8)
        writer.write(UInt16(clamping: body.count), .bigEndian)
        writer.write(group, .bigEndian)
        writer.write(sequence)
        writer.write(command)
        writer.write(body)
        return writer.bytes
    }

    /// Header and body, in bytes, as the first eight bytes tell it.
    package static func length(announcedBy header: some Collection<UInt8>) -> Int {
        let length = header.dropFirst(2).prefix(2).reduce(0) { $0 << 8 | Int($1) }
        return headerLength + length
    }
}
