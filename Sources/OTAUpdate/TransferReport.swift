/// The statistics of a transfer. Bytes are image bytes.
public struct TransferReport: Sendable, Equatable {
    /// The device's offset when this run started to send, in bytes.
    public var resumedFrom = 0
    /// The size of the image, in bytes.
    public var imageBytes = 0
    /// The bytes that this run sent, including repeated bytes.
    public var sentBytes = 0
    /// The repeated bytes: the sum of the host's sent offset minus the device's offset, over all lost links and gaps.
    public var resentBytes = 0
    /// The length of the longest chunk, in bytes. Over the OTA profile a chunk is a Data value with its sequence number; over SMP it
    /// is a packet.
    public var chunkSize = 0
    /// The MTU of the link, in bytes; 0: the link has none.
    public var mtu = 0
    public var flushes = 0
    public var gaps = 0
    public var disconnects = 0
    /// The time from the first image byte that was passed to the link until the device acknowledged the last one. It includes
    /// reconnections.
    public var duration: Duration = .zero

    public init() {}
}
