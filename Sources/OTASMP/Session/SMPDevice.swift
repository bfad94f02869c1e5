/// What a device can do, as far as it has been asked: all of it stays as it is while a session lasts.
struct SMPDevice {
    /// Without an answer to the question for its parameters a device is taken to have buffers as Zephyr makes them by
    /// default (`MCUMGR_TRANSPORT_NETBUF_SIZE`).
    private static let usualBufferSize = 384
    /// An answer is a few bytes longer than the same map in a question.
    private static let echoMargin = 16
    /// One echo may get lost. A link that breaks each time is taken for a no.
    static let mostProbes = 2
    /// The most packets that a device without parameters is asked to take at once: those of one connection event.
    private static let mostRoom = 6

    var parameters: SMPParameters?
    var mode: SMPBootloaderMode?
    /// The board's name.
    var hardware: String?
    /// The question for the board's name was answered, with a name or an error.
    var wasAskedForBoard = false
    var slots: SMPSlotList?
    /// Whether it has the command that marks an image; nil: it was not asked.
    var marksImages: Bool?
    /// Whether it puts a packet together from several values; nil: it was not asked, or there was no need.
    var reassembles: Bool?
    /// Times that this was tried.
    var probes = 0
    /// The longest value, in bytes, that a link of this session carried.
    var longestValue = 0
    /// Packets that it took at once, where it does not report its buffers.
    var room = 1
    /// Packets at once that this was tried with last.
    var triedRoom = 1
    /// What uploads found out about the number of chunks in flight; nil: none began.
    var window: SMPWindow?
    /// All was asked that is to be known before an image is sent.
    var isSurveyed = false

    /// It did not answer several questions at once.
    var needsSequentialQuestions = false

    /// The most chunks in flight.
    var mostChunks: Int { parameters?.window ?? room }
    /// Questions that may wait for an answer at a time: servers answer one after the other, and drop silently what they have no
    /// buffer for.
    var questionsInFlight: Int { needsSequentialQuestions ? 1 : parameters?.window ?? 1 }

    /// The longest frame that can be sent, in bytes, on a link that carries values of so many bytes.
    func longestFrame(valueLength: Int) -> Int {
        let buffer = parameters?.bufferSize ?? Self.usualBufferSize
        return reassembles == true ? buffer : min(buffer, valueLength)
    }

    /// What is to be found out next before an image is sent over such a link, and the text to be echoed; nil: nothing.
    func nextProbe(valueLength: Int) -> (SMPProbe, text: String)? {
        guard let parameters else {
            // One packet more at a time, as long as all of them come back.
            guard room == triedRoom, room < Self.mostRoom else { return nil }
            let frame = longestFrame(valueLength: valueLength) - Self.echoMargin
            return Self.text(ofFrame: frame).map { (.room(room + 1), $0) }
        }
        guard reassembles == nil, probes < Self.mostProbes else { return nil }
        // A frame that needs two values: a device that does not put them together takes the second one for a packet of its
        // own, and 0x2E2E… is none: its operation is unknown, its length too long.
        let frame = min(parameters.bufferSize - Self.echoMargin, valueLength + 2 * SMPFrame.headerLength)
        guard frame > valueLength else { return nil }
        return Self.text(ofFrame: frame).map { (.reassembly, $0) }
    }

    /// A text whose echo is a frame of so many bytes; nil: so short a frame carries none.
    private static func text(ofFrame length: Int) -> String? {
        let overhead = SMPFrame.headerLength + 4
        return length > overhead ? String(repeating: ".", count: length - overhead) : nil
    }
}

/// What echoes are to find out.
enum SMPProbe: Equatable {
    /// Whether the device puts a packet together from several values.
    case reassembly
    /// Whether it takes so many packets at once.
    case room(Int)

    enum Result {
        case echoed
        /// An error, or another text.
        case refused
        case silence
    }

    var isOfRoom: Bool { self != .reassembly }
}
