public import OTASigning

/// What a virtual SMP device is, and what it cannot do: all of it fixed when it is made.
public struct VirtualSMPConfiguration: Sendable {
    public enum Erase: Sendable, Equatable {
        /// The whole slot with the first chunk, unless it is empty: as long as that takes, nothing is answered.
        case wholeSlot(Duration)
        /// Page by page, as the image comes.
        case progressive
    }

    /// What its bootloader starts. The key of the image from the factory is among them.
    public var trustedKeys: [PublicKey]
    public var layout = FlashLayout()
    /// The longest packet, header included, in bytes; what is longer is dropped without a word.
    public var bufferSize = 2475
    /// Packets that wait, and the answer under way.
    public var bufferCount = 4
    /// It answers the question for its buffers.
    public var reportsParameters = true
    /// A packet may come in several values.
    public var reassembles = true
    public var erase = Erase.progressive
    /// Compares the file's SHA-256 at the end, and says so.
    public var checksImage = false
    public var reportsSlots = true
    /// What it says of its bootloader (`smp_group_0.rst`); nil: it has no such question.
    public var bootloaderMode: Int? = 3
    public var board = "virtual_board"
    /// It has the command "os info", which reports the board.
    public var reportsBoard = true
    /// Subscribing and writing demand a bond.
    public var isAuthenticated = false
    /// A version that is not newer is refused at the first chunk.
    public var refusesDowngrade = false
    /// It knows version 1 of SMP alone.
    public var knowsFirstVersionOnly = false
    /// Marks cannot be set, as where MCUboot loads to RAM.
    public var marksImages = true
    /// From a packet to its answer.
    public var answerDelay = Duration.zero
    /// From an answer until the packet and the answer free their buffers, and the next packet is looked at. Zephyr frees them once
    /// the answer was sent.
    public var releaseDelay = Duration.zero
    /// How long it answers after it has said that it restarts.
    public var restartDelay = Duration.milliseconds(250)
    /// How long its bootloader takes to change the images.
    public var swapTime = Duration.zero

    public init(trustedKeys: [PublicKey] = []) { self.trustedKeys = trustedKeys }

    /// - Throws: `badConfiguration` with the first thing that is out of its range.
    public func validate() throws(VirtualDeviceError) {
        guard 64...65535 ~= bufferSize else {
            throw VirtualDeviceError(.badConfiguration, "a buffer has 64 to 65535 bytes")
        }
        guard 1...64 ~= bufferCount else { throw VirtualDeviceError(.badConfiguration, "there are 1 to 64 buffers") }
        guard 1...63 ~= board.utf8.count else {
            throw VirtualDeviceError(.badConfiguration, "a board's name has 1 to 63 characters")
        }
        for delay in [answerDelay, releaseDelay] where !(.zero ... .seconds(60)).contains(delay) {
            throw VirtualDeviceError(.badConfiguration, "the answer time and the release time are 0 to 60 s")
        }
        try layout.validate()
    }
}
