import OTAUpdate

/// The known features of a device, and the state of the tests (``SMPProbe``) that detect some features.
struct SMPDevice {
    /// The assumed size of a buffer in bytes if the device does not report its buffers.
    ///
    /// This is the default of Zephyr (`MCUMGR_TRANSPORT_NETBUF_SIZE`).
    private static let usualBufferSize = 384
    /// An echo request is shorter than the device's buffer by this number of bytes. The reason is that the answer is longer than the
    /// request, and must also fit in a buffer.
    private static let echoMargin = 16
    /// The maximum number of reassembly tests. A test counts even if the link is lost before the answer.
    static let mostProbes = 2
    /// The maximum number of packets in flight if the device does not report its buffers.
    ///
    /// One connection event of Bluetooth LE carries about this number of packets.
    private static let mostRoom = 6

    /// The SMP version of the requests.
    private(set) var version = SMPFrame.Version.second
    /// The device's buffers; nil if the device does not report them.
    var parameters: SMPParameters?
    /// The mode of the bootloader; nil if the device does not report it.
    var mode: SMPBootloaderMode?
    /// True after the device answered the request for the mode, with a mode or an error; also if it answered the request for its image list
    /// and was silent to this request. Before, an image list has no meaning: the image list of a firmware loader can look like the list of
    /// an application.
    var wasAskedForMode = false
    /// The name of the board; nil if the device does not report it.
    var hardware: String?
    /// True after the device answered the request for the board's name, with a name or an error.
    var wasAskedForBoard = false
    /// The identity that the running program reports; nil before the answer. A device without Memfault's group has an identity without values.
    var info: SMPDeviceInfo?
    /// The sizes of the slots; nil if the device does not report them.
    var slots: SMPSlotList?
    /// True if the device has the command that marks an image for boot; nil if this is unknown.
    var marksImages: Bool?
    /// True if the device accepts a packet in several values and reassembles the packet; nil if this is unknown.
    var reassembles: Bool?
    /// The number of reassembly tests so far.
    var probes = 0
    /// The highest `SMPConversation.valueLength` of all links of this session so far, in bytes.
    var longestValue = 0
    /// The framing overhead of the current link (`LinkProperties`), in bytes. The frame of a packet shares the device's buffer.
    var framingOverhead = 0
    /// The number of packets that the device accepted at the same time in a test; 1 before the first successful test.
    var room = 1
    /// The number of packets in the last test that determines `room`.
    var triedRoom = 1
    /// The number of packets in this test whose texts the device sent back.
    var echoes = 0
    /// The window of the last upload; nil if no answer to a chunk has arrived. The next upload starts with this window.
    var window: SMPWindow?
    /// The limit of the length of an upload's packets.
    var packetLimit = SMPPacketLimit()
    /// True after the queries that precede an upload have been answered.
    var isSurveyed = false
    /// True after the first queries were sent.
    var wasGreeted = false

    /// True after the device failed to answer several queries at the same time.
    var needsSequentialQuestions = false
    /// The optional queries that got no answer before the first image list. They are not sent again.
    var unanswered: [SMPRequest] = []

    /// The maximum number of chunks in flight.
    var mostChunks: Int { parameters?.window ?? room }
    /// The maximum number of queries in flight. With more queries, the device could have no free buffer, and would drop a query without an
    /// answer.
    var questionsInFlight: Int { needsSequentialQuestions ? 1 : parameters?.window ?? 1 }

    /// True if the device has one slot, and a firmware loader that receives images.
    var hasFirmwareLoader: Bool { mode == .firmwareLoader }

    /// Discards the features of the program that answered, because another program of the device may answer on the next link. Keeps the
    /// properties of the device itself.
    mutating func forgetProgram() {
        var other = SMPDevice()
        (other.mode, other.wasAskedForMode) = (mode, wasAskedForMode)
        (other.hardware, other.wasAskedForBoard) = (hardware, wasAskedForBoard)
        self = other
    }

    /// Discards the mode of the bootloader.
    mutating func forgetMode() { (mode, wasAskedForMode) = (nil, false) }

    /// Stores the properties of a new link.
    mutating func connected(over link: LinkProperties, valueLength: Int) {
        longestValue = max(longestValue, valueLength)
        framingOverhead = link.framingOverhead
    }

    /// Changes to SMP version 1 if the answer shows that the device does not support version 2.
    ///
    /// A device without version 2 answers in version 1, or refuses the request with the error `versionTooNew`.
    ///
    /// - Returns: true if the device refused the request with `versionTooNew`. The caller must then send the request again.
    mutating func fallsBack(_ answer: SMPAnswer, _ frame: SMPFrame) -> Bool {
        guard version == .second else { return false }
        let isRefused = answer == .bad(.versionTooNew)
        version = isRefused ? .first : frame.version
        return isRefused
    }

    /// Returns the maximum length in bytes of a packet to the device.
    ///
    /// If the device reassembles packets, only the size of its buffer limits the length. The link's framing uses a part of the buffer. If
    /// the device does not reassemble packets, or if this is unknown, a packet must also fit in one value.
    ///
    /// - Parameter valueLength: the maximum length in bytes of a value that the host can send on this link.
    func longestFrame(valueLength: Int) -> Int {
        let longest = (parameters?.bufferSize ?? Self.usualBufferSize) - framingOverhead
        return reassembles == true ? longest : min(longest, valueLength)
    }

    /// The maximum length in bytes of an upload's packet; nil if it is not known yet.
    ///
    /// If a packet that fills the device's buffer needs several values, the length is known only after a test shows whether the device
    /// reassembles packets.
    func knownPacketLength(valueLength: Int, on link: LinkProperties) -> Int? {
        let needsTest = reassembles == nil && !link.preservesMessageBoundaries
        guard let size = parameters?.bufferSize, !needsTest || size - framingOverhead <= valueLength else {
            return packetLimit.bytes
        }
        return packetLimit.length(of: longestFrame(valueLength: valueLength))
    }

    /// Returns the next test, and the text for its echo requests; nil if no test is left.
    ///
    /// - Parameter valueLength: the maximum length in bytes of a value that the host can send on this link.
    func nextProbe(valueLength: Int) -> (SMPProbe, text: String)? {
        if let probe = reassemblyProbe(valueLength: valueLength) { return probe }
        // Each test has one packet more than the previous test. The tests end at `mostRoom` packets, or when an echo is missing.
        guard parameters?.bufferCount == nil, room == triedRoom, room < Self.mostRoom else { return nil }
        let frame = min(longestFrame(valueLength: valueLength), valueLength) - Self.echoMargin
        return Self.text(ofFrame: frame).map { (.room(room + 1), $0) }
    }

    private func reassemblyProbe(valueLength: Int) -> (SMPProbe, text: String)? {
        guard let bufferSize = parameters?.bufferSize, reassembles == nil, probes < Self.mostProbes else { return nil }
        // The echo request needs two values. A device that does not reassemble packets handles the second value as another packet. The
        // second value is the end of the text, so all its bytes are 0x2E (`.`). As a header, these bytes have an unknown operation and a
        // length that is too large. So the device refuses or drops the second value.
        let frame = min(bufferSize - Self.echoMargin, valueLength + 2 * SMPFrame.headerLength)
        guard frame > valueLength else { return nil }
        return Self.text(ofFrame: frame).map { (.reassembly, $0) }
    }

    /// Returns a text whose echo request has `length` bytes, or up to 2 bytes more; nil if `length` is too short for a text.
    private static func text(ofFrame length: Int) -> String? {
        let overhead = SMPFrame.headerLength + 4
        return length > overhead ? String(repeating: ".", count: length - overhead) : nil
    }
}

/// A test that detects a feature of the device with echo requests.
enum SMPProbe: Equatable {
    /// Tests whether the device reassembles a packet from several values.
    case reassembly
    /// Tests whether the device accepts this number of packets at the same time.
    case room(Int)

    /// The result of an echo request.
    enum Result {
        /// The device answered with the text of the request.
        case echoed
        /// The device answered with an error or with another text.
        case refused
        /// No answer arrived in time.
        case silence
    }
}
