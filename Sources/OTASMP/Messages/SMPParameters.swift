/// The size and the number of a device's packet buffers, as the device reports them.
package struct SMPParameters: Sendable, Equatable {
    /// The maximum length of a packet in bytes, including the header. The device drops a longer packet without an answer.
    package var bufferSize: Int
    /// The number of buffers.
    package var bufferCount: Int

    package init(bufferSize: Int, bufferCount: Int) {
        self.bufferSize = bufferSize
        self.bufferCount = bufferCount
    }

    /// Parses the fields of an answer.
    ///
    /// - Throws: ``SMPFrameError`` if the size or the count is missing or impossible.
    package init(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        guard let size = fields["buf_size"]?.integer, let count = fields["buf_count"]?.integer,
            1...(SMPFrame.headerLength + CBORDecoder.longest) ~= size, 1...1024 ~= count
        else {
            let (size, count) = (fields["buf_size"]?.integer, fields["buf_count"]?.integer)
            let reported = [size, count].map { $0.map { "\($0)" } ?? "not an integer" }
            throw SMPFrameError(
                context: "the device reports impossible buffers: size \(reported[0]), count \(reported[1])")
        }
        self.init(bufferSize: size, bufferCount: count)
    }

    /// The maximum number of packets in flight.
    ///
    /// One buffer is not counted, because the device needs this buffer for its answer. Without a free buffer for the answer, the device
    /// refuses the packet.
    package var window: Int { min(max(1, bufferCount - 1), Self.longestWindow) }

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
    case firmwareLoader
}
