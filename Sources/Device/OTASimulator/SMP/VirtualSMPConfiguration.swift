import OTAFirmware
public import OTASigning

/// The configuration of a virtual SMP device. The configuration cannot change after the ``VirtualSMPDevice`` was created.
public struct VirtualSMPConfiguration: Sendable {
    public enum Erase: Sendable, Equatable {
        /// If the slot is not empty, the server erases the whole slot at the first chunk. The value is the duration of the erase. The
        /// server does not answer during the erase.
        case wholeSlot(Duration)
        /// The server erases each page just before it writes to the page.
        case progressive
    }

    /// The firmware loader of a device with one slot: a second program that receives images while the application does not run. It is like
    /// the loader of Nordic's nRF Connect SDK Bare Metal (sdk-nrf-bm, `applications/firmware_loader/ble_mcumgr`).
    public struct Loader: Sendable, Equatable {
        /// The image list of the loader. In all forms, the loader runs.
        public enum List: String, Sendable, Codable {
            /// The application is confirmed and not active. The loader is active and not confirmed (sdk-nrf-bm v1.0.0, v2.0.1 and main).
            case both
            /// Only the application, active and confirmed (sdk-nrf-bm, commit 8cbd0cf5).
            case applicationOnly = "application-only"
        }
        public var list = List.both
        /// Whether the application accepts a name for the loader.
        public var acceptsName = true
        /// Whether the loader advertises with another address than the application. If false, it has the address of the application.
        public var changesAddress = false
        /// The length in bytes of the digests in the loader's list. The loader lists only images with such a digest.
        public var digestLength = 32
        /// Whether the application restarts into the loader on request. If false, it ignores the boot mode of a restart request.
        public var isEnteredOnRequest = true

        public init() {}
    }

    /// The firmware loader of a device with one slot; nil: the device has two slots.
    public var loader: Loader?
    /// The Ed25519 keys that the bootloader trusts. When a new device is created, the key of its factory image is added.
    public var trustedKeys: [PublicKey]
    /// The ECDSA and RSA keys that the bootloader also trusts.
    public var otherTrustedKeys: [ImagePublicKey] = []
    public var layout = FlashLayout()
    /// The maximum length of a packet in bytes, including the header. The server drops a longer packet without an error. The default is the
    /// value of an observed Zephyr 3.4 server over Bluetooth LE.
    public var bufferSize = 2475
    /// The maximum length in bytes of a packet that reaches the server, if it is smaller than the reported `bufferSize`. A longer packet is
    /// lost without an error, as on a path with a smaller limit, or if the framing of a serial line shares the buffer.
    public var packetLimit: Int?
    /// The number of buffers. Each waiting packet, an incomplete packet, the last request and its answer need one buffer each. The default
    /// is the value of an observed Zephyr 3.4 server over Bluetooth LE.
    public var bufferCount = 4
    /// Whether the server has the image group. Without it, the server refuses all commands of this group.
    public var hasImageGroup = true
    /// Whether the server supports the command "MCUmgr parameters". The command reports the size and the number of buffers.
    public var reportsParameters = true
    /// Whether a host may split a packet into several written values.
    public var reassembles = true
    public var erase = Erase.progressive
    /// Whether the server compares the SHA-256 of the uploaded file with the host's digest at the end of an upload. If true, the last
    /// answer of the upload contains the result of the comparison.
    public var checksImage = false
    public var reportsSlots = true
    /// The bootloader mode that the server reports. Mode 3 is a swap without a scratch area; Zephyr's `smp_group_0.rst` lists all modes.
    /// Nil if the server does not support the command "bootloader information".
    public var bootloaderMode: Int? = 3
    public var board = "virtual_board"
    /// Whether the server supports the command "os info". The command reports the board.
    public var reportsBoard = true
    /// The identity that the server reports with Memfault's group. Its version is the version of the running image if `reportsVersion` is true.
    public struct Identity: Sendable, Equatable {
        public var serial = "0001"
        public var hardware = "1"
        public var softwareType: String
        public var reportsVersion = true
        /// A version that replaces the version of the running image; nil: the version of the image.
        public var ownVersion: String?

        public init(softwareType: String) { self.softwareType = softwareType }
    }
    /// Nil if the server does not have Memfault's group. A firmware loader never has it.
    public var identity: Identity?
    /// Whether subscriptions and writes require a bond.
    public var isAuthenticated = false
    /// Whether the server refuses the first chunk of an upload if the image's version is not newer than the running version.
    public var refusesDowngrade = false
    /// Whether the server supports only version 1 of SMP.
    public var knowsFirstVersionOnly = false
    /// Whether the server supports the command that marks an image for boot or confirms an image. A device with MCUboot in RAM load mode
    /// does not support this command.
    public var marksImages = true
    /// Whether the image list has the flags of MCUboot. The serial recovery of MCUboot lists no flags.
    package var listsFlags = true
    /// Whether the image list has the digests of the images. An older serial recovery of MCUboot lists no digests.
    package var listsDigests = true
    /// The number of bytes that the device writes to its flash at once. The device stores only whole units of a chunk, except at the end of
    /// the image, and answers with the offset after them. This is the behaviour of the serial recovery of MCUboot (`boot_serial.c`).
    package var storedUnit = 1
    /// The time from the arrival of a packet to its answer. If the packet must wait for buffers (`releaseDelay`), this time starts when the
    /// buffers are free.
    public var answerDelay = Duration.zero
    /// The time from an answer until the buffers of the packet and its answer are free. The server handles the next packet only after this
    /// time, even if other buffers are free. Zephyr's server behaves in the same way: it handles one packet at a time, and frees both
    /// buffers after the transmission of the answer.
    public var releaseDelay = Duration.zero
    /// The time from the answer to a reset command until the restart. The server continues to answer during this time. The default is the
    /// time of an observed Zephyr 3.4 server.
    public var restartDelay = Duration.milliseconds(250)
    /// The time that the bootloader needs to swap the images.
    public var swapTime = Duration.zero

    public init(trustedKeys: [PublicKey] = []) { self.trustedKeys = trustedKeys }

    /// Creates the configuration of a device that trusts the keys of `trust`.
    public init(trust: TrustStore) {
        // MCUboot does not support ML-DSA.
        self.init(trustedKeys: trust.keys.filter { $0.algorithm == .ed25519 })
        otherTrustedKeys = trust.imageKeys.filter { $0.bundleKey == nil }
    }

    /// All keys that the bootloader trusts.
    var imageKeys: [ImagePublicKey] { trustedKeys.map { ImagePublicKey($0) } + otherTrustedKeys }

    /// Checks that the values are in range.
    ///
    /// - Throws: `badConfiguration` for the first value that is out of range.
    public func validate() throws(VirtualDeviceError) {
        guard 64...65535 ~= bufferSize else {
            throw VirtualDeviceError(.badConfiguration, "the buffer size is \(bufferSize) bytes; expected 64 to 65535")
        }
        if let packetLimit, !(32...65535 ~= packetLimit) {
            throw VirtualDeviceError(
                .badConfiguration, "the packet limit is \(packetLimit) bytes; expected 32 to 65535")
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
