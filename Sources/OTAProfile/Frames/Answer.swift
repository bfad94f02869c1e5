import OTAFirmware

/// An answer that a device notifies on Control: `[0x80 | opcode][tag][status u8][results]`.
package struct Answer: Equatable {
    package var opcode: UInt8
    package var tag: UInt8
    package var status: DeviceStatus
    /// The device's position. Present only in answers to BEGIN and SYNC with status ok.
    package var position: Position?

    /// - Returns: nil for a notification that answers another request. The rest of such a notification is not parsed.
    package init?(to request: Request, tag: UInt8, parsing bytes: [UInt8]) throws(FrameError) {
        guard bytes.count >= 2, bytes[0] == 0x80 | request.opcode, bytes[1] == tag else { return nil }
        self = try ByteReader.parse("the answer to \(request.name)", bytes) { reader in
            _ = try reader.read(2)
            let status: UInt8 = try reader.read()
            guard let status = DeviceStatus(rawValue: status) else {
                throw FrameError(context: "unknown status \(status)")
            }
            let position: Position? =
                switch request {
                case .begin where status == .ok, .sync where status == .ok: try Position(from: &reader)
                default: nil
                }
            return Answer(opcode: request.opcode, tag: tag, status: status, position: position)
        }
    }

    private init(opcode: UInt8, tag: UInt8, status: DeviceStatus, position: Position?) {
        self.opcode = opcode
        self.tag = tag
        self.status = status
        self.position = position
    }
}
