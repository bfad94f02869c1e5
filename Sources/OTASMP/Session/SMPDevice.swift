/// The features of a device, as far as the session knows them. They are constant during a session.
struct SMPDevice {
    /// The assumed size of a buffer, in bytes, if the device does not report its parameters: Zephyr's default
    /// (`MCUMGR_TRANSPORT_NETBUF_SIZE`).
    private static let usualBufferSize = 384
    /// The bytes that stay free in an echo request, because the answer is a few bytes longer than the request.
    private static let echoMargin = 16
    /// The maximum number of tests whether the device reassembles packets. A link that is lost during a test counts as a test without
    /// an echo.
    static let mostProbes = 2
    /// The maximum number of packets in flight if the device does not report its parameters: about as many as fit one connection event.
    private static let mostRoom = 6

    var parameters: SMPParameters?
    var mode: SMPBootloaderMode?
    /// The name of the board.
    var hardware: String?
    /// True after an answer to the request for the board's name: a name or an error.
    var wasAskedForBoard = false
    var slots: SMPSlotList?
    /// True if the device has the command that marks an image; nil: unknown.
    var marksImages: Bool?
    /// True if the device reassembles packets from several values; nil: unknown.
    var reassembles: Bool?
    /// The number of reassembly tests so far.
    var probes = 0
    /// The highest value length of the links of this session, in bytes.
    var longestValue = 0
    /// The number of packets that the device accepted at the same time, if it does not report its buffers.
    var room = 1
    /// The number of packets in the last test of `room`.
    var triedRoom = 1
    /// The window of the last upload; nil: none began.
    var window: SMPWindow?
    /// True when the queries that precede an upload have been answered.
    var isSurveyed = false

    /// True if the device failed to answer several queries at the same time.
    var needsSequentialQuestions = false

    /// The maximum number of chunks in flight.
    var mostChunks: Int { parameters?.window ?? room }
    /// The maximum number of queries in flight. A server handles one packet after the other, and drops a packet silently if it has no
    /// free buffer.
    var questionsInFlight: Int { needsSequentialQuestions ? 1 : parameters?.window ?? 1 }

    /// Returns the maximum length of a packet to the device, in bytes. A device that reassembles packets accepts a packet in several
    /// values, so only its buffer limits the length. For other devices, a packet must also fit in one value.
    ///
    /// - Parameter valueLength: the maximum length of a sent value, in bytes.
    func longestFrame(valueLength: Int) -> Int {
        let buffer = parameters?.bufferSize ?? Self.usualBufferSize
        return reassembles == true ? buffer : min(buffer, valueLength)
    }

    /// Returns the next test that needs echo requests, and the text to echo; nil if no test is left.
    ///
    /// - Parameter valueLength: the maximum length of a sent value, in bytes.
    func nextProbe(valueLength: Int) -> (SMPProbe, text: String)? {
        guard let parameters else {
            // Each test has one packet more than the last one, until an echo is missing.
            guard room == triedRoom, room < Self.mostRoom else { return nil }
            let frame = longestFrame(valueLength: valueLength) - Self.echoMargin
            return Self.text(ofFrame: frame).map { (.room(room + 1), $0) }
        }
        guard reassembles == nil, probes < Self.mostProbes else { return nil }
        // The packet needs two values. A device that does not reassemble packets parses the second value as a packet of its own, and
        // finds it invalid: its bytes 0x2E2E… are an unknown operation and too large a length.
        let frame = min(parameters.bufferSize - Self.echoMargin, valueLength + 2 * SMPFrame.headerLength)
        guard frame > valueLength else { return nil }
        return Self.text(ofFrame: frame).map { (.reassembly, $0) }
    }

    /// Returns a text whose echo request has `length` bytes; nil: the length is too short for a text.
    private static func text(ofFrame length: Int) -> String? {
        let overhead = SMPFrame.headerLength + 4
        return length > overhead ? String(repeating: ".", count: length - overhead) : nil
    }
}

/// A test of the device that uses echo requests.
enum SMPProbe: Equatable {
    /// Whether the device reassembles packets from several values.
    case reassembly
    /// Whether the device accepts this number of packets at the same time.
    case room(Int)

    enum Result {
        case echoed
        /// The answer was an error, or its text was not the text of the request.
        case refused
        case silence
    }

    var isOfRoom: Bool { self != .reassembly }
}
