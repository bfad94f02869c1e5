public import OTASigning

/// The configuration of a virtual SMP device, fixed at its creation. It includes the optional functions that the device supports.
public struct VirtualSMPConfiguration: Sendable {
    public enum Erase: Sendable, Equatable {
        /// The first chunk erases the whole slot, unless the slot is already erased. The server does not respond until this duration has
        /// passed.
        case wholeSlot(Duration)
        /// The server erases each page just before it writes to the page.
        case progressive
    }

    /// The Ed25519 keys that the bootloader trusts. They include the key of the factory image.
    public var trustedKeys: [PublicKey]
    /// The ECDSA and RSA keys that the bootloader also trusts.
    public var otherTrustedKeys: [ImagePublicKey] = []
    public var layout = FlashLayout()
    /// The maximum length of a packet in bytes, including the header. The server drops a longer packet without an error.
    public var bufferSize = 2475
    /// The number of buffers. Each waiting packet and the current response need one buffer each.
    public var bufferCount = 4
    /// Whether the server supports the command "MCUmgr parameters". The command reports the size and the number of buffers.
    public var reportsParameters = true
    /// Whether a client may split a packet into several written values.
    public var reassembles = true
    public var erase = Erase.progressive
    /// Whether the server compares the SHA-256 of the received file with the client's digest at the end of the upload, and reports the
    /// result.
    public var checksImage = false
    public var reportsSlots = true
    /// The bootloader mode that the server reports. Zephyr's `smp_group_0.rst` lists the values. Nil if the server does not support the
    /// command.
    public var bootloaderMode: Int? = 3
    public var board = "virtual_board"
    /// Whether the server supports the command "os info". The command reports the board.
    public var reportsBoard = true
    /// Whether subscriptions and writes require a bond.
    public var isAuthenticated = false
    /// Whether the server refuses an upload at the first chunk if its version is not newer than the running version.
    public var refusesDowngrade = false
    /// Whether the server supports only version 1 of SMP.
    public var knowsFirstVersionOnly = false
    /// Whether the server supports marking an image for boot. MCUboot in RAM load mode does not support it.
    public var marksImages = true
    /// The time from the arrival of a packet to its response.
    public var answerDelay = Duration.zero
    /// The time from a response until the buffers of the packet and its response are free. The next packet waits until then, because Zephyr
    /// frees these buffers only after it has sent the response.
    public var releaseDelay = Duration.zero
    /// The time from the response to a reset command until the restart. The server still responds during this time.
    public var restartDelay = Duration.milliseconds(250)
    /// The time that the bootloader needs to swap the images.
    public var swapTime = Duration.zero

    public init(trustedKeys: [PublicKey] = []) { self.trustedKeys = trustedKeys }

    /// Creates the configuration of a device that trusts the keys of `trust`.
    public init(trust: TrustStore) {
        self.init(trustedKeys: trust.keys)
        otherTrustedKeys = trust.imageKeys.filter { $0.bundleKey == nil }
    }

    /// All keys that the bootloader trusts.
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
