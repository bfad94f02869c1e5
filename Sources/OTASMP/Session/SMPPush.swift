import OTAUpdate

/// What a push knows across its connections.
struct SMPPush {
    let images: [SMPImage]
    let options: SMPPushOptions

    /// Image bytes sent and acknowledged when last heard of, of the image under way.
    var sentOffset = 0
    var acknowledgedOffset = 0
    /// The furthest that the device has come with each image in this run: only what lies beyond is progress.
    var furthestOffsets: [Int: Int] = [:]
    var budget: ProgressBudget
    /// The image under way; nil: none yet.
    var underWay: Int?
    /// Images of which the device has taken every byte in this run.
    var complete: Set<Int> = []
    /// The device was looked at.
    var hasBegun = false
    /// The bundle's fields were compared with the device.
    var isTargetChecked = false
    /// Fields of the bundle that could not be compared with the device.
    var unchecked: [String] = []
    /// The preflight let it pass.
    var isChecked = false
    /// The device has taken the first chunk of the image under way, in this run.
    var wasOpened = false
    /// Images that the device may have taken in part from an earlier run, or of whose last bytes no answer came.
    var uncertain: Set<Int> = []
    /// Images that were sent again from 0, because the device did not list them.
    var sentAgain: Set<Int> = []
    /// The slot of this image is to be erased before the image is sent again.
    var toErase: Int?
    /// Times that the device held another file in the end.
    var digestMismatches = 0
    /// Times that it knew of no upload when all was sent.
    var stateLosses = 0
    var firstByteAt: Duration?
    var transfer = TransferReport()

    /// All of the images were seen to run, some on trial: after this run's restart or an earlier one's.
    var sawTrial = false
    /// Something was asked of the device that changes what it runs.
    var hasActed = false

    init(_ images: [SMPImage], _ options: SMPPushOptions) {
        self.images = images
        self.options = options
        budget = ProgressBudget(imageBytes: images.reduce(0) { $0 + $1.bytes.count })
    }
}
