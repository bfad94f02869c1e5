/// The size and number of a device's packet buffers.
package struct SMPParameters: Sendable, Equatable {
    /// The longest packet in bytes, header included. The device drops a longer packet without an answer.
    package var bufferSize: Int
    package var bufferCount: Int

    package init(bufferSize: Int, bufferCount: Int) {
        self.bufferSize = bufferSize
        self.bufferCount = bufferCount
    }

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
    /// It is one less than the number of buffers, because the device needs one buffer for its answer. Without a free buffer, the device
    /// refuses the first packet.
    package var window: Int { min(max(1, bufferCount - 1), Self.longestWindow) }

    /// The maximum window, in packets. Over UDP an old answer can arrive late or twice. There are 256 sequence numbers. If fewer than
    /// half of them are in flight, an old answer never has the number of a packet in flight.
    private static let longestWindow = 127
}

/// The mode in which a device's bootloader installs images (Zephyr, `smp_group_0.rst`).
package enum SMPBootloaderMode: Int, Sendable {
    case singleSlot = 0
    case swapWithScratch
    /// The new image overwrites the old one, so a rollback is impossible.
    case overwrite
    case swap
    case directXIP
    case directXIPWithRevert
    case loadToRAM
    case firmwareLoader
}
