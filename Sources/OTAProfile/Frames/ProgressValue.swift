import OTAFirmware

/// The value of Progress: `[state u8][status u8][position]`, 12 bytes.
package struct ProgressValue: Equatable {
    package var state: DeviceState
    /// The status: `flashFailed` if a failure of the flash ended the state *image*, else `ok`.
    package var status: DeviceStatus
    package var position: Position

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

/// The state byte of Progress.
package enum DeviceState: UInt8 {
    case idle = 0
    case envelope
    case accepted
    case image
    case verified
    case trial
}

/// The device's position in the open object: `[next u16][offset u32][CRC-32 u32]`, little-endian, 10 bytes. The device has received
/// the first `offset` bytes of the object. `crc` is their CRC-32.
package struct Position: Equatable {
    /// The sequence number that the device expects.
    package var next: UInt16
    /// The number of received bytes.
    package var offset: Int
    package var crc: UInt32

    package init(next: UInt16, offset: Int, crc: UInt32) {
        self.next = next
        self.offset = offset
        self.crc = crc
    }

    init(from reader: inout ByteReader) throws(ByteReader.Truncated) {
        next = try reader.read()
        offset = Int(try reader.read(UInt32.self))
        crc = try reader.read()
    }
}
