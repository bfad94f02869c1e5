import OTAFirmware
public import OTAUpdate

/// One packet of SMP, the Simple Management Protocol (Zephyr, `smp_protocol.rst`).
///
/// A header of eight bytes precedes the body, a CBOR map. The numbers of the header are big-endian:
///
///     byte 0   3 bits 0, 2 bits version, 3 bits operation
///          1   flags, 0
///       2, 3   length of the body
///       4, 5   group
///          6   sequence
///          7   command
package struct SMPFrame: Sendable, Equatable {
    package enum Version: UInt8, Sendable {
        /// SMP version 1: an answer with an error has the single field `rc`.
        case first = 0
        /// SMP version 2: groups have their own error codes.
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

    /// Parses exactly one frame.
    package init(parsing bytes: [UInt8]) throws(SMPFrameError) {
        guard bytes.count >= Self.headerLength else {
            throw SMPFrameError(context: "\(bytes.count) bytes are too short for an SMP header (\(Hex.encode(bytes)))")
        }
        guard bytes.count == Self.length(announcedBy: bytes) else {
            throw SMPFrameError(
                context: "the SMP packet has \(bytes.count) bytes, but its header announces another length",
                header: bytes)
        }
        guard bytes[0] >> 5 == 0, let version = Version(rawValue: bytes[0] >> 3 & 3),
            let operation = Operation(rawValue: bytes[0] & 7)
        else { throw SMPFrameError(context: "unknown version or operation in an SMP header", header: bytes) }
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

    /// Returns the length of the frame in bytes, header included, from the frame's first bytes.
    package static func length(announcedBy header: some Collection<UInt8>) -> Int {
        let length = header.dropFirst(2).prefix(2).reduce(0) { $0 << 8 | Int($1) }
        return headerLength + length
    }
}

/// The error for received bytes that are not a valid SMP packet or not a valid answer.
package struct SMPFrameError: Error, Equatable {
    /// The reason for the user, without a full stop.
    package var context: String

    package init(context: String) { self.context = context }

    fileprivate init(context: String, header bytes: [UInt8]) {
        self.context = "\(context) (\(Hex.encode(bytes.prefix(SMPFrame.headerLength))))"
    }
}

/// Reassembles frames from values that are cut at any byte. The header's length field gives the end of each frame.
///
/// The start of a frame is not marked. After a lost value, all later bytes are misread; only a new connection fixes this.
package struct SMPFrameAssembler {
    private var collected: [UInt8] = []

    package init() {}

    /// Whether the assembler holds an incomplete frame.
    package var isInMidFrame: Bool { !collected.isEmpty }

    /// Adds a received value.
    ///
    /// - Returns: The frames that this value completes.
    /// - Throws: ``SMPFrameError`` if a header is malformed.
    package mutating func take(_ value: [UInt8]) throws(SMPFrameError) -> [SMPFrame] {
        collected += value
        var frames: [SMPFrame] = []
        while collected.count >= SMPFrame.headerLength {
            let length = SMPFrame.length(announcedBy: collected)
            guard collected.count >= length else { break }
            let bytes = Array(collected.prefix(length))
            collected.removeFirst(length)
            frames.append(try SMPFrame(parsing: bytes))
        }
        return frames
    }
}

/// The channel of SMP: its only characteristic over GATT (Zephyr, `smp_transport.rst`).
///
/// The characteristic has the properties write without response and notify. UDP and serial links have no characteristics; they use this
/// value as the name of their only channel.
public enum SMPChannel {
    public static let value = Channel(
        service: 0x8D53DC1D_1DB7_4CD3_868B_8A527460AA84, characteristic: 0xDA2E7828_FBCE_4E01_AE9E_261174997C48)
}
