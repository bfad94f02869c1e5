import OTAFirmware

/// Bytes from a device that are no SMP packet, or not the answer that they ought to be.
package struct SMPFrameError: Error, Equatable {
    /// For people, without a full stop.
    package var context: String

    package init(context: String) { self.context = context }

    init(context: String, header bytes: [UInt8]) {
        self.context = "\(context) (\(Hex.encode(bytes.prefix(SMPFrame.headerLength))))"
    }
}
