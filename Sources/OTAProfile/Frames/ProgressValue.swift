import OTAFirmware

/// The value of Progress: `[state u8][status u8][position]`, 12 bytes.
package struct ProgressValue: Equatable {
    package var state: DeviceState
    /// Ok, or flash failed when the device left the state *image* by itself.
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
