/// The size and the number of a device's packet buffers, as the device reports them. A value that cannot be true counts as not reported.
package struct SMPParameters: Sendable, Equatable {
    /// The smallest buffer in bytes that can hold the first packet of an upload: 32 bytes of the image, its length and its digest.
    package static let smallestBuffer = 98

    /// The maximum length of a packet in bytes, including the header; nil if the device does not report it. The device drops a longer
    /// packet without an answer.
    package var bufferSize: Int?
    /// The number of buffers; nil if the device does not report it.
    package var bufferCount: Int?

    package init(bufferSize: Int? = nil, bufferCount: Int? = nil) {
        self.bufferSize = bufferSize
        self.bufferCount = bufferCount
    }

    /// Parses the fields of an answer.
    package init(_ fields: [String: CBORValue]) {
        let sizes = Self.smallestBuffer...(SMPFrame.headerLength + CBORDecoder.longest)
        bufferSize = fields["buf_size"]?.integer.flatMap { sizes ~= $0 ? $0 : nil }
        bufferCount = fields["buf_count"]?.integer.flatMap { 1...1024 ~= $0 ? $0 : nil }
    }

    /// Returns a description of the values that are missing or cannot be true; nil if both values are usable.
    ///
    /// - Parameter fields: the fields of the answer that has these values.
    package func unusableValues(in fields: [String: CBORValue]) -> String? {
        let values = [("size", "buf_size", bufferSize), ("number", "buf_count", bufferCount)].filter { $0.2 == nil }
        guard !values.isEmpty else { return nil }
        return values.map { name, key, _ in
            "\(name) (\(fields[key].map { $0.integer.map(String.init) ?? "not an integer" } ?? "missing"))"
        }.joined(separator: " and ")
    }

    /// The maximum number of packets in flight; nil if the device does not report its number of buffers.
    ///
    /// One buffer is not counted, because the device needs this buffer for its answer. Without a free buffer for the answer, the device
    /// refuses the packet.
    package var window: Int? { bufferCount.map { min(max(1, $0 - 1), Self.longestWindow) } }

    /// The maximum window in packets.
    ///
    /// Over UDP, an answer can arrive late or twice. The window is less than half of the 256 sequence numbers. So the sequence number of
    /// a late answer is not the number of a packet in flight.
    private static let longestWindow = 127
}

/// The mode in which a device's bootloader installs images (Zephyr, `smp_group_0.rst`).
package enum SMPBootloaderMode: Int, Sendable {
    case singleSlot = 0
    case swapWithScratch
    /// The bootloader overwrites the old image with the new image, so a rollback is impossible.
    case overwrite
    case swap
    case directXIP
    case directXIPWithRevert
    case loadToRAM
    /// The device has one slot for its application. A second program, the firmware loader, receives images while the application does not
    /// run.
    case firmwareLoader
}
