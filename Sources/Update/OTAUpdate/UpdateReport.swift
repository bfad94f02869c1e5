public import OTAFirmware

/// The result of a successful session.
public struct UpdateReport: Sendable, Equatable {
    public enum Outcome: Sendable, Equatable {
        /// The new version runs and is confirmed.
        case confirmed
        /// The new version runs on trial. If it is not confirmed within `seconds` after its boot, the device rolls back. With 0 seconds
        /// there is no time limit: the device rolls back at the next restart.
        case onTrial(seconds: Int)
        /// The device already runs this image, and the image is confirmed. The session did not change the device.
        case alreadyRunning
        /// The device has one slot. It has received the whole image and restarted, and its firmware loader does not run any more. The
        /// application does not report its version, so it is not known which version runs.
        case returned
        /// The task `status`, `discard`, `restart` or `identify` is done; or a push with `UpdateOptions.Ending.uploadOnly` has uploaded the
        /// image.
        case done
        /// A push with `UpdateOptions.isDryRun` passed the preflight. Nothing was changed on the device.
        case wouldUpdate(UpdatePlan)
    }
    public var outcome: Outcome
    public var updateProtocol: UpdateProtocol
    public var device: DeviceDescription
    /// The statistics of a push; nil for other tasks, and for the outcome `wouldUpdate`.
    public var transfer: TransferReport?
    /// The JSON names of the bundle's fields that could not be checked against the device.
    public var unchecked: [String]
    /// The slot that the task `discard` erased; nil: no slot was erased. Only SMP erases a slot.
    public var erased: ErasedSlot?
    /// The partial upload that the task `discard` removed; nil: the device reported no partial upload. SMP never reports one.
    public var discarded: DeviceDescription.HeldImage?
    /// The image numbers of the push whose running image the device does not list. For these images, it is not known which version runs.
    /// Only SMP can have such images.
    public var unlistedImages: [Int]
    /// The results of a conformance check, in the order of the rules; empty for all other tasks.
    package var checks: [CheckResult] = []

    public init(
        outcome: Outcome, updateProtocol: UpdateProtocol, device: DeviceDescription, transfer: TransferReport? = nil,
        unchecked: [String] = [], erased: ErasedSlot? = nil, discarded: DeviceDescription.HeldImage? = nil,
        unlistedImages: [Int] = []
    ) {
        self.outcome = outcome
        self.updateProtocol = updateProtocol
        self.device = device
        self.transfer = transfer
        self.unchecked = unchecked
        self.erased = erased
        self.discarded = discarded
        self.unlistedImages = unlistedImages
    }
}

/// The transfer that a push would do, as a dry run reports it (`UpdateOptions.isDryRun`).
public struct UpdatePlan: Sendable, Equatable {
    /// The offset at which the transfer would start, in bytes. Nil, or the size of the image, if nothing is left to send.
    ///
    /// Over SMP, the value is also nil if the push may resume a partial upload, because SMP does not report the offset of a partial upload.
    public var resumeFrom: Int?
    /// The number of image bytes to send. Over SMP, the push sends fewer bytes if it resumes a partial upload.
    public var bytes: Int
    /// The size of the partial upload that the device would discard, in bytes; nil: the protocol does not report it (SMP).
    public var discards: Int?
    /// The size of the encoded image that the push would send in place of `bytes`, in bytes; nil: the push would send the image plain.
    public var encodedBytes: Int?
    /// The base of the encoded image; nil if the image would only be compressed, or would be sent plain. A dry run does not offer the base
    /// to the device, so in a push the device can still refuse the base.
    public var base: BaseImage?

    public init(resumeFrom: Int? = nil, bytes: Int, discards: Int? = nil) {
        self.resumeFrom = resumeFrom
        self.bytes = bytes
        self.discards = discards
    }
}

/// A slot that a device has erased on request.
public struct ErasedSlot: Sendable, Equatable {
    /// The image number of MCUboot; 0 on a device with one image.
    public var image: Int
    /// The number of the slot, 0 or 1, as in `DeviceDescription.ImageSlot`. Each image number has its own two slots.
    public var slot: Int
    /// The complete image that was in the slot before; nil: the slot was empty or contained a partial upload.
    public var held: DeviceDescription.ImageSlot?
    /// True if the device reported that the slot was empty.
    public var wasEmpty: Bool

    public init(image: Int = 0, slot: Int, held: DeviceDescription.ImageSlot? = nil, wasEmpty: Bool = false) {
        self.image = image
        self.slot = slot
        self.held = held
        self.wasEmpty = wasEmpty
    }
}

/// The form in which the bytes of an image go over the link.
public enum ImageEncoding: String, Sendable, CaseIterable {
    /// The image bytes themselves.
    case plain
    /// An LZMA2 stream (docs/ota-profile.md, "Encoded images"): the compressed image, or a delta.
    case lzma2
}

/// The statistics of a transfer. `sentBytes`, `resentBytes` and `encodedBytes` count bytes that go over the link, without headers: image
/// bytes, or bytes of an encoded image.
public struct TransferReport: Sendable, Equatable {
    /// The reason why an image, or the rest of an image after a break, was sent plain.
    public enum PlainReason: String, Sendable, CaseIterable {
        /// The caller requested it (`UpdateOptions.isPlain`), or the caller has no encoder.
        case asked
        /// The device does not announce an encoding, or it refused the encoded image.
        case notOffered = "not-offered"
        /// The encoded image has more than 95 % of the size of the plain image.
        case notSmaller = "not-smaller"
        /// The image has more than `EncodedImage.maximumSize` bytes, or the encoder was too slow.
        case tooLarge = "too-large"
        /// The encoded image made no progress on several links in a row, or the device's positions contradicted the sent bytes. Also
        /// reported if the push requested too many encodings.
        case noProgress = "no-progress"
        /// The encoder failed, or the device could not decode the encoded image.
        case notDecoded = "not-decoded"
    }
    /// The device's offset when this run started to send, in bytes.
    public var resumedFrom = 0
    /// The size of the image, in bytes. Over SMP, the sum of the sizes of all images that the push uploads.
    public var imageBytes = 0
    /// The number of bytes that this run sent, including the bytes that it sent again.
    public var sentBytes = 0
    /// The number of bytes that this run sent again. Each lost link and each gap adds the difference between the host's sent offset and the
    /// device's offset.
    ///
    /// After a lost link, a device reports its offset in the image. If the image was encoded, the session estimates the offset in the
    /// encoded image, because the device's offset can be inside an LZMA2 chunk.
    public var resentBytes = 0
    /// `lzma2` if this run sent at least a part of the image encoded; `plain` if not.
    public var encoding = ImageEncoding.plain
    /// The base of the encoded image; nil if this run sent no part of the image as a delta.
    public var base: BaseImage?
    /// The number of encoded bytes that this run sent and that the device did not lose. Bytes that were sent again are counted only once.
    public var encodedBytes = 0
    /// The reason why this run sent the image, or the last part of the image, plain. Nil: this part was encoded, or nothing was sent over
    /// the OTA profile. Over SMP, images are always plain, and the value is nil.
    public var plainBecause: PlainReason?
    /// The number of bases that the device refused because the device runs another image.
    public var baseRefused = 0
    /// The length of the longest chunk with its header, in bytes. Over the OTA profile, a chunk is a Data value, and the header is the
    /// sequence number. Over SMP, a chunk is a packet.
    public var chunkSize = 0
    /// The MTU of the link, in bytes; 0 if the transport has no MTU.
    public var mtu = 0
    public var flushes = 0
    public var gaps = 0
    public var disconnects = 0
    /// The time from the first image byte that was passed to the link until the device acknowledged the last image byte. Reconnections are
    /// included.
    public var duration: Duration = .zero

    /// The average rate of this run, in image bytes per second; nil: this run sent no image byte, or has not completed the upload.
    public var bytesPerSecond: Double? {
        duration > .zero ? Double(imageBytes - resumedFrom) / (duration / .seconds(1)) : nil
    }
    /// The average rate of the bytes on the link, in bytes per second. The bytes that were sent again are not counted. Nil in the same
    /// cases as `bytesPerSecond`.
    ///
    /// For a plain image, the value is equal to `bytesPerSecond`.
    public var linkBytesPerSecond: Double? {
        duration > .zero ? Double(sentBytes - resentBytes) / (duration / .seconds(1)) : nil
    }

    public init() {}
}

/// The status that a device reports.
public struct DeviceDescription: Sendable, Equatable {
    public enum State: String, Sendable {
        case idle
        /// The device has received a part of an update.
        case receiving
        /// The running image is on trial. If the image is not confirmed, the device rolls back.
        case trial
        /// The device does not report which image runs, or whether the running image is confirmed. Only SMP can have this state, for
        /// example in MCUboot's serial recovery.
        case unknown
        /// The device has one slot, and its firmware loader waits for an image. The application does not run. Only SMP has this state.
        case loader
    }
    /// A partial upload: the first `offset` bytes of an image, which the device has received.
    public struct HeldImage: Sendable, Equatable {
        /// The first 8 bytes of the SHA-256 of the manifest to which the partial upload belongs.
        public var manifestDigestPrefix: [UInt8]
        /// The number of received bytes.
        public var offset: Int

        public init(manifestDigestPrefix: [UInt8], offset: Int) {
            self.manifestDigestPrefix = manifestDigestPrefix
            self.offset = offset
        }
    }
    /// The image in a slot of the device, with MCUboot's flags. A flag is nil if the device does not report it.
    public struct ImageSlot: Sendable, Equatable {
        /// The image number of MCUboot; 0 on a device with one image.
        public var image = 0
        public var slot = 0
        /// The version in the device's format: `1.2.3`, or `1.2.3.4` with a build number.
        public var version = ""
        /// The digest in the image's TLVs; nil: the device reports no digest. This digest is not the SHA-256 of the image file.
        public var digest: [UInt8]?
        /// The image runs.
        public var isActive: Bool?
        /// The image is marked for the next boot.
        public var isPending: Bool?
        /// The image is confirmed. If this image is not the running image, the running image is on trial. If the trial is not confirmed,
        /// the device boots the confirmed image again.
        public var isConfirmed: Bool?
        /// The image is marked as permanent for the next boot. This boot is not a trial.
        public var isPermanent: Bool?
        /// The bootloader can boot the image.
        public var isBootable: Bool?

        public init() {}
    }
    // If the docstring of a property below does not explain nil, nil means that the protocol does not report the value.
    public var product: String?
    public var hardware: Int?
    /// The serial number. Only SMP with Memfault's group reports it.
    public var serial: String?
    /// The security counter of the confirmed image. During a trial, this is the counter of the old image.
    public var securityCounter: UInt32?
    public var state: State
    /// The version of the running image; empty if the device does not report which image runs.
    public var runningVersion: String
    /// The first 8 bytes of the SHA-256 of the running release's manifest. Two builds with the same version have different manifests.
    public var manifestDigestPrefix: [UInt8]?
    /// The IDs of the keys that the device trusts; empty if the protocol does not report them.
    public var keys: [KeyID] = []
    /// The version that ran at the start of the session; nil if the session did not change the running image.
    public var previousVersion: String?
    /// The time limit of a trial: the time in seconds from boot until the image must be confirmed. 0: the device does not support trials.
    public var trialSeconds: Int?
    /// The battery level in per cent; nil: the device runs on mains power, or the protocol does not report the level.
    public var battery: Int?
    /// The partial upload; nil if the device reports no partial upload.
    public var held: HeldImage?
    /// The images in the slots. Only SMP reports them; with another protocol the array is empty.
    public var slots: [ImageSlot]
    /// The encodings of images that the device decodes, besides `plain`. Empty if the device decodes none.
    public var encodings: [ImageEncoding]
    /// The size of the largest base that the device can decode with, in bytes; 0: the device cannot use its running image as the base. Nil
    /// if `encodings` is empty.
    public var largestBase: Int?
    /// The maximum length in bytes of a packet of an upload over SMP; nil if it is not known.
    public var packetLength: Int?

    public init(
        product: String? = nil, hardware: Int? = nil, securityCounter: UInt32? = nil, state: State,
        runningVersion: String, previousVersion: String? = nil, trialSeconds: Int? = nil, battery: Int? = nil,
        held: HeldImage? = nil, slots: [ImageSlot] = [], encodings: [ImageEncoding] = [], largestBase: Int? = nil
    ) {
        self.product = product
        self.hardware = hardware
        self.securityCounter = securityCounter
        self.state = state
        self.runningVersion = runningVersion
        self.previousVersion = previousVersion
        self.trialSeconds = trialSeconds
        self.battery = battery
        self.held = held
        self.slots = slots
        self.encodings = encodings
        self.largestBase = largestBase
    }
}
