import OTAFirmware
public import OTAUpdate

/// One packet of SMP, the Simple Management Protocol (Zephyr, `smp_protocol.rst`).
///
/// A packet is a header of eight bytes and a body. The body is a CBOR map. The integers in the header are big-endian:
///
///     byte 0   bits 7 to 5: 0, bits 4 and 3: version, bits 2 to 0: operation
///          1   flags, always sent as 0
///       2, 3   length of the body
///       4, 5   group
///          6   sequence
///          7   command
package struct SMPFrame: Sendable, Equatable {
    package enum Version: UInt8, Sendable {
        /// SMP version 1. All groups of commands share one set of error codes.
        case first = 0
        /// SMP version 2. Each group of commands has its own set of error codes.
        case second = 1
    }
    /// The operation of a request or of an answer.
    package enum Operation: UInt8, Sendable {
        case read, readAnswer, write, writeAnswer
    }
    /// The length of the header in bytes.
    package static let headerLength = 8

    package var version: Version
    package var operation: Operation
    /// The group of commands to which `command` belongs.
    package var group: UInt16
    /// The sequence number, which the device copies from the request into the answer.
    package var sequence: UInt8
    /// The number of the command in its group.
    package var command: UInt8
    /// The body: an encoded CBOR map.
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

    /// Parses bytes that are exactly one packet. The body is not decoded.
    ///
    /// - Throws: ``SMPFrameError`` if the header is malformed, or if its length field does not match the number of bytes.
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

    /// The packet as bytes.
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

    /// Returns the offset of the image bytes in a request that uploads a part of an image; nil for another packet.
    ///
    /// In an encoded map, the member `data` is after the members with shorter keys, such as `off`, and before `image`. So everything from
    /// the value of `data` on counts as image bytes.
    package static func imageDataOffset(inUpload bytes: [UInt8]) -> Int? {
        let upload = SMPRequest.upload(SMPChunk(offset: 0, data: []))
        guard bytes.count > headerLength, bytes[0] & 7 == upload.operation.rawValue,
            UInt16(bytes[4]) << 8 | UInt16(bytes[5]) == upload.group, bytes[7] == upload.command
        else { return nil }
        let key = CBOREncoder.encode(.text("data"))
        return bytes.firstRange(of: key)?.upperBound ?? headerLength
    }

    /// Returns the length of a packet in bytes, including the header, from the length field in the header.
    ///
    /// - Parameter header: the first four bytes of the packet, or more.
    package static func length(announcedBy header: some Collection<UInt8>) -> Int {
        let length = header.dropFirst(2).prefix(2).reduce(0) { $0 << 8 | Int($1) }
        return headerLength + length
    }
}

/// The error for received bytes that are not a valid SMP packet or not a valid answer.
package struct SMPFrameError: Error, Equatable {
    /// The description of the error for the user, without a full stop.
    package var context: String

    package init(context: String) { self.context = context }

    fileprivate init(context: String, header bytes: [UInt8]) {
        self.context = "\(context) (\(Hex.encode(bytes.prefix(SMPFrame.headerLength))))"
    }
}

/// Assembles packets from received values, such as GATT notifications. A device may split a packet into several values at any byte.
///
/// The length field in the header shows where a packet ends, but no byte marks the start of a packet. So if a value is lost, the assembler
/// interprets wrong bytes as the header of the next packet. All later packets are then wrong, too. The caller then needs a new link and a
/// new assembler.
package struct SMPFrameAssembler {
    private var collected: [UInt8] = []

    package init() {}

    /// True if the assembler has received only a part of a packet.
    package var isInMidFrame: Bool { !collected.isEmpty }

    /// Adds a received value.
    ///
    /// - Returns: the packets that this value completes, in the order in which the device sent them.
    /// - Throws: ``SMPFrameError`` if the header of a packet is malformed.
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

/// The channel of SMP for requests and answers (Zephyr, `smp_transport.rst`).
public enum SMPChannel {
    /// The GATT characteristic of SMP. The host writes requests to it without response. The device sends its answers as notifications.
    ///
    /// UDP and serial links have no characteristics. On these links, the same value identifies the only channel.
    public static let value = Channel(
        service: 0x8D53DC1D_1DB7_4CD3_868B_8A527460AA84, characteristic: 0xDA2E7828_FBCE_4E01_AE9E_261174997C48)
}
