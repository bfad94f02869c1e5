/// What a device can do, as far as it has been asked: all of it stays as it is while a session lasts.
struct SMPDevice {
    /// Without an answer to the question for its parameters a device is taken to have buffers as Zephyr makes them by
    /// default (`MCUMGR_TRANSPORT_NETBUF_SIZE`), and one packet on its way is all that is sure.
    private static let usualBufferSize = 384
    /// An answer is a few bytes longer than the same map in a question.
    private static let echoMargin = 16
    /// A link that breaks each time is taken for a no.
    private static let mostProbes = 2

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
    /// All was asked that is to be known before an image is sent.
    var isSurveyed = false

    /// It did not answer several questions at once.
    var isAskedOneByOne = false

    var window: Int { parameters?.window ?? 1 }
    /// Questions that may wait for an answer at a time: servers answer one after the other, and drop silently what they have no
    /// buffer for.
    var questionsAtOnce: Int { isAskedOneByOne ? 1 : window }

    /// The longest frame that can be sent, in bytes, on a link that carries values of so many bytes.
    func longestFrame(valueLength: Int) -> Int {
        let buffer = parameters?.bufferSize ?? Self.usualBufferSize
        return reassembles == true ? buffer : min(buffer, valueLength)
    }

    /// A text to be echoed whose frame needs two values: a device that does not put them together takes the second one for a
    /// packet of its own, and 0x2E2E… is none: its operation is unknown, its length too long. Nil: two are never needed.
    func probe(valueLength: Int) -> String? {
        guard let parameters, reassembles == nil, probes < Self.mostProbes else { return nil }
        let length = min(parameters.bufferSize - Self.echoMargin, valueLength + 2 * SMPFrame.headerLength)
        let overhead = SMPFrame.headerLength + 4
        guard length > max(valueLength, overhead) else { return nil }
        return String(repeating: ".", count: length - overhead)
    }
}
