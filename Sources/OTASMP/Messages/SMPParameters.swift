/// What a device tells of its buffers.
package struct SMPParameters: Sendable, Equatable {
    /// The longest packet that it takes, header included; a longer one it drops without a word.
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
            let reported = [size, count].map { $0.map { "\($0)" } ?? "no number" }
            throw SMPFrameError(
                context: "the device reports impossible buffers: size \(reported[0]), count \(reported[1])")
        }
        self.init(bufferSize: size, bufferCount: count)
    }

    /// The most packets in flight.
    ///
    /// One buffer is for the answer: with as many packets in flight as there are buffers, the first one is refused.
    package var window: Int { min(max(1, bufferCount - 1), Self.longestWindow) }

    /// A frame has one of 256 sequence numbers. With half of them in flight, the answer to an earlier packet that arrives twice or
    /// late (UDP) does not have the number of a packet in flight.
    private static let longestWindow = 127
}
