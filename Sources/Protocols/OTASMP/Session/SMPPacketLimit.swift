/// The maximum length of the packets of an upload. It becomes smaller if the device answers only short packets.
///
/// A device drops a packet without an answer if the packet is longer than its real buffer. A network path does the same with a packet that
/// is longer than its limit. A device that restarts or erases its flash does not answer either. The difference is that this device answers
/// no packet of any length. Therefore, after a long packet without an answer, the upload sends only short packets. After the device has
/// answered a short packet, the upload sends a long packet again. If ``tolerated`` + 1 long packets in a row get no answer, the length is
/// halved.
///
/// The length does not grow again in the session. A long packet can be lost for another reason. So a length that was answered on a link is
/// not reduced on this link.
package struct SMPPacketLimit: Sendable, Equatable {
    /// The length in bytes of a short packet, and the smallest limit.
    ///
    /// The first packet of an upload has the image's header, length and digest. It has about 100 bytes.
    package static let shortest = 128
    /// The number of long packets in a row that may get no answer.
    ///
    /// Before each of these packets, except the first, the device has answered a short packet.
    package static let tolerated = 2
    /// The pause between the answer to a short packet and the next long packet.
    ///
    /// A device that has just answered may have no free buffer, and would drop a packet of any length.
    package static let pause = Duration.milliseconds(640)

    /// The limit in bytes; nil before it was reduced.
    package private(set) var bytes: Int?
    /// The length of the longest packet that was answered on this link.
    private var answered = 0
    /// The number of long packets in a row that got no answer.
    private var unanswered = 0
    /// True from a long packet without an answer until the answer to a short packet.
    private var needsShortPacket = false

    package init() {}

    /// True if it is unknown whether the last long packet was too long. The upload then sends one packet at a time.
    package var isTesting: Bool { unanswered > 0 }

    /// Returns the maximum length of a packet.
    ///
    /// - Parameter longest: the maximum length without this limit.
    package func length(of longest: Int) -> Int { min(longest, bytes ?? longest) }

    /// Returns the maximum length of the next packet. During a test, this packet can be a short one.
    ///
    /// - Parameter longest: the maximum length without this limit.
    package func nextLength(of longest: Int) -> Int {
        min(length(of: longest), needsShortPacket ? Self.shortest : longest)
    }

    /// Records that the device received a packet of this length.
    package mutating func received(_ length: Int) {
        needsShortPacket = false
        guard length > Self.shortest else { return }
        answered = max(answered, length)
        unanswered = 0
    }

    /// Records that a packet of this length got no answer in time.
    ///
    /// - Returns: true if the limit is now smaller.
    package mutating func timedOut(_ length: Int) -> Bool {
        guard length > max(Self.shortest, answered) else { return false }
        unanswered += 1
        needsShortPacket = unanswered <= Self.tolerated
        guard !needsShortPacket else { return false }
        unanswered = 0
        bytes = max(Self.shortest, length / 2)
        return true
    }

    /// Halves the length, because a packet of this length lost bytes on a line without frames. The bytes are lost if they arrive faster than
    /// the device processes them. A shorter packet fits in the device's buffers.
    mutating func lostBytes(_ length: Int) { bytes = max(Self.shortest, length / 2) }

    /// Records that the upload closes the link because packets got no answer. The path of the next link can have a smaller limit.
    package mutating func linkFailed() { answered = 0 }
}
