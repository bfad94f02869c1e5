public import OTASigning

/// The configuration of a virtual SMP device and its unsupported functions, fixed at its creation.
public struct VirtualSMPConfiguration: Sendable {
    public enum Erase: Sendable, Equatable {
        /// The first chunk erases the whole slot, unless the slot is empty. The server does not respond for this duration.
        case wholeSlot(Duration)
        /// The server erases page by page during the upload.
        case progressive
    }

    /// The keys whose images the bootloader boots. They include the key of the factory image.
    public var trustedKeys: [PublicKey]
    /// ECDSA and RSA keys whose images the bootloader also boots.
    public var otherTrustedKeys: [ImagePublicKey] = []
    public var layout = FlashLayout()
    /// The longest packet in bytes, including the header. The server drops longer packets without an error.
    public var bufferSize = 2475
    /// The number of buffers, for waiting packets and the current response.
    public var bufferCount = 4
    /// Whether the server supports the command "MCUmgr parameters", which reports its buffers.
    public var reportsParameters = true
    /// Whether a packet may be split into several values.
    public var reassembles = true
    public var erase = Erase.progressive
    /// Whether the server compares the file's SHA-256 at the end of the upload and reports the result.
    public var checksImage = false
    public var reportsSlots = true
    /// The reported mode of the bootloader (`smp_group_0.rst`); nil if the server does not support the command.
    public var bootloaderMode: Int? = 3
    public var board = "virtual_board"
    /// Whether the server supports the command "os info", which reports the board.
    public var reportsBoard = true
    /// Whether subscriptions and writes require a bond.
    public var isAuthenticated = false
    /// Whether the server refuses a version that is not newer, at the first chunk.
    public var refusesDowngrade = false
    /// Whether the server supports only version 1 of SMP.
    public var knowsFirstVersionOnly = false
    /// Whether images can be marked for boot. False for MCUboot in RAM load mode.
    public var marksImages = true
    /// The time from a packet to its response.
    public var answerDelay = Duration.zero
    /// The time from a response until the buffers of the packet and the response are free. The next packet waits until then. Zephyr frees
    /// the buffers after the response is sent.
    public var releaseDelay = Duration.zero
    /// The time from the response to a reset command until the restart. The server still responds during this time.
    public var restartDelay = Duration.milliseconds(250)
    /// The time that the bootloader needs to swap the images.
    public var swapTime = Duration.zero

    public init(trustedKeys: [PublicKey] = []) { self.trustedKeys = trustedKeys }

    /// Creates the configuration of a device that trusts the same keys as `trust`.
    public init(trust: TrustStore) {
        self.init(trustedKeys: trust.keys)
        otherTrustedKeys = trust.imageKeys.filter { $0.bundleKey == nil }
    }

    /// All keys whose images the bootloader boots.
    var imageKeys: [ImagePublicKey] { trustedKeys.map { ImagePublicKey($0) } + otherTrustedKeys }

    /// Checks the values.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    public func validate() throws(VirtualDeviceError) {
        guard 64...65535 ~= bufferSize else {
            throw VirtualDeviceError(.badConfiguration, "the buffer size is \(bufferSize) bytes; expected 64 to 65535")
        }
        guard 1...64 ~= bufferCount else {
            throw VirtualDeviceError(.badConfiguration, "the number of buffers is \(bufferCount); expected 1 to 64")
        }
        guard 1...63 ~= board.utf8.count else {
            throw VirtualDeviceError(
                .badConfiguration, "the board's name has \(board.utf8.count) bytes; expected 1 to 63")
        }
        for delay in [answerDelay, releaseDelay] where !(.zero ... .seconds(60)).contains(delay) {
            throw VirtualDeviceError(
                .badConfiguration, "the answer time or the release time is \(delay); expected 0 to 60 s")
        }
        try layout.validate()
    }
}
