import OTAFirmware

/// The value of the characteristic Progress: `[state u8][status u8][position]`, 12 bytes.
package struct ProgressValue: Equatable {
    package var state: DeviceState
    /// The reason why the device has left the state *image* for the state *accepted*: `flashFailed` after a flash error, `notDecoded` after
    /// bytes of an encoded image that the device could not decode. In all other cases, the status is `ok`.
    package var status: DeviceStatus
    package var position: Position

    /// Parses the value of Progress.
    ///
    /// - Throws: ``FrameError`` if the length is not 12 bytes, or if the state or the status is unknown.
    package init(parsing bytes: [UInt8]) throws(FrameError) {
        self = try ByteReader.parse("Progress", bytes) { reader in
            let state: UInt8 = try reader.read()
            let status: UInt8 = try reader.read()
            guard let state = DeviceState(rawValue: state) else { throw FrameError(context: "unknown state \(state)") }
            guard let status = DeviceStatus(rawValue: status) else {
                throw FrameError(context: "unknown status \(status)")
            }
            return ProgressValue(state: state, status: status, position: try Position(from: &reader))
        }
    }

    private init(state: DeviceState, status: DeviceStatus, position: Position) {
        self.state = state
        self.status = status
        self.position = position
    }
}

/// The state of the device, as Progress reports it in one byte (docs/ota-profile.md, "States").
package enum DeviceState: UInt8 {
    case idle = 0
    case envelope
    case accepted
    case image
    case verified
    case trial
}

/// The device's position in the open object: `[next u16][offset u32][CRC-32 u32]`, little-endian, 10 bytes.
///
/// The open object is the envelope or the image that the last BEGIN opened. For an encoded image, the position in the answer to BEGIN
/// counts the bytes of the image. All later positions count the bytes of the stream.
package struct Position: Equatable {
    /// The sequence number of the chunk that the device expects next.
    package var next: UInt16
    /// The number of bytes of the object that the device has received.
    package var offset: Int
    /// The CRC-32 of the first `offset` bytes of the object.
    package var crc: UInt32

    package init(next: UInt16, offset: Int, crc: UInt32) {
        self.next = next
        self.offset = offset
        self.crc = crc
    }

    /// Reads the 10 bytes of a position.
    init(from reader: inout ByteReader) throws(ByteReader.Truncated) {
        next = try reader.read()
        offset = Int(try reader.read(UInt32.self))
        crc = try reader.read()
    }
}
