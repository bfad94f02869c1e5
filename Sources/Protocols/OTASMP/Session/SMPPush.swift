import OTAFirmware
import OTAUpdate

/// The state of a push, for all links of the session.
struct SMPPush {
    /// The history of one image in this session.
    struct Record {
        /// True after the upload of the image has begun.
        var hasBegun = false
        /// True if the device has received the image completely.
        var isComplete = false
        /// True if the image's bytes on the device may be damaged.
        ///
        /// This is so in two cases. First: an earlier session sent some bytes of the image. Second: the device did not acknowledge the last
        /// bytes of the image.
        var isUncertain = false
        /// True if the image was sent a second time from offset 0, because the device's image list did not have it.
        var wasSentAgain = false
        /// True if an image list showed the image as marked for boot, and as not running.
        var wasMarked = false
    }
    /// The checks before the first change on the device, in their order.
    enum Check: Comparable {
        case none
        /// The push has handled its first image list.
        case begun
        /// The bundle's fields were compared with the device (``SMPTarget``).
        case target
        /// The device passed the preflight (``SMPPreflight``).
        case preflight
    }

    let images: [SMPImage]
    let options: UpdateOptions
    /// A base that the user named; nil if the user named no base. A note reports that SMP does not use the base.
    var unusedBase: BaseImage? { options.bases.first(where: \.isNamed) }

    /// The last check that was passed.
    var check = Check.none
    /// The images' histories, by image number.
    private var records: [Int: Record] = [:]
    /// The current image: the image whose upload began last. Nil if no upload began.
    var underWay: SMPImage?
    /// True after the device accepted the first chunk of the current image in this session.
    var wasOpened = false
    /// The image whose slot must be erased before the image is sent from 0; nil if no erase is necessary.
    var toErase: SMPImage?
    /// True after the answer to an erase request, until the device reports the first offset of the upload.
    var expectsEmptySlot = false
    /// How many times the device reported, at the end of an upload, that the received bytes do not have the file's digest.
    var digestMismatches = 0
    /// How many times the device reported that no upload is in progress, although all bytes of the image were sent.
    var stateLosses = 0
    /// True if an image list showed that all images of the push run and that at least one of them is on trial.
    var sawTrial = false
    /// True after this session began an upload, or requested a mark, a restart or a confirmation.
    var hasActed = false

    init(_ images: [SMPImage], _ options: UpdateOptions) {
        self.images = images
        self.options = options
    }

    /// The history of an image.
    subscript(image: SMPImage) -> Record {
        get { records[image.number] ?? Record() }
        set { records[image.number] = newValue }
    }
}
