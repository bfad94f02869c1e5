/// How the image went over. Bytes are image bytes.
public struct TransferReport: Sendable, Equatable {
    /// Where the device stood when this run began to send.
    public var resumedFrom = 0
    public var imageBytes = 0
    /// All that this run sent, repeated bytes too.
    public var sentBytes = 0
    /// The part of them that had been sent before: after every break or gap the host's sent offset less the device's.
    public var resentBytes = 0
    /// Longest Data value used, in bytes, sequence number included.
    public var chunkSize = 0
    /// The link's MTU, in bytes.
    public var mtu = 0
    public var flushes = 0
    public var gaps = 0
    public var disconnects = 0
    /// From the first image byte handed to the link until the device had acknowledged the last one, reconnections
    /// included.
    public var duration: Duration = .zero

    public init() {}
}
