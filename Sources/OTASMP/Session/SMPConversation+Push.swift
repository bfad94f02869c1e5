import OTAUpdate

/// The state of a push over all links.
struct SMPPush {
    let images: [SMPImage]
    let options: UpdateOptions

    /// The number of bytes of the current image that were sent.
    var sentOffset = 0
    /// The number of bytes of the current image that the device acknowledged, as far as known.
    var acknowledgedOffset = 0
    /// The highest offset that each image reached in this run, by image number. Only bytes after this offset count as progress.
    var furthestOffsets: [Int: Int] = [:]
    /// The number of the current image; nil: none yet.
    var underWay: Int?
    /// The images that the device has received completely in this run.
    var complete: Set<Int> = []
    /// True after the first image list.
    var hasBegun = false
    /// True after the bundle's fields were compared with the device.
    var isTargetChecked = false
    /// True after the preflight.
    var isChecked = false
    /// True after the device has received the first chunk of the current image in this run.
    var wasOpened = false
    /// The images whose bytes on the device can be damaged: some bytes are from an earlier run, or the last bytes were not
    /// acknowledged.
    var uncertain: Set<Int> = []
    /// The images that were sent a second time from offset 0, because they were missing in the device's image list.
    var sentAgain: Set<Int> = []
    /// The image whose slot is erased before the image is sent again.
    var toErase: Int?
    /// The number of complete uploads for which the device computed another digest.
    var digestMismatches = 0
    /// The number of complete uploads that the device has discarded.
    var stateLosses = 0
    var firstByteAt: Duration?

    /// True if an image list showed that all images run and at least one is on trial.
    var sawTrial = false
    /// True from the end of an erase request, successful or refused, until the upload begins.
    var expectsEmptySlot = false
    /// The numbers of the images whose upload this run has begun.
    var begun: Set<Int> = []
    /// True after the first request that can change which image the device boots.
    var hasActed = false

    init(_ images: [SMPImage], _ options: UpdateOptions) {
        self.images = images
        self.options = options
    }
}

/// The steps of a push, from the image list.
extension SMPConversation {
    /// Performs the next step of the push.
    mutating func proceed(with list: SMPImageList) {
        guard var push else { return }
        let plan = SMPPlan(images: push.images, ending: push.options.ending, list: list)
        if !push.hasBegun { report(.phase(.preflight)) }
        push.hasBegun = true
        self.push = push
        guard isForTarget(plan, list) else { return }
        push = self.push ?? push
        push.sawTrial = push.sawTrial || plan.runOnTrial
        self.push = push
        if restart != .none || push.sawTrial, !plan.allRun { return checkRestart(plan, list) }
        switch plan.step {
        case .upload(let image): if isReady(for: list) { begin(image) }
        case .mark(let image, let digest): if isReady(for: list) { markListed(image, digest: digest) }
        case .restart:
            self.push?.hasActed = true
            askToRestart()
        case .confirm(let image, let digest): confirm(image.number, digest: digest)
        // Over SMP a trial has no time limit (0 seconds). The next restart ends it.
        case .leaveOnTrial: finish(.onTrial(seconds: 0), describe(list))
        case .leaveHeld: finish(.done, describe(list))
        case .finish: finish(list)
        case .blocked(let error): fail(error)
        }
    }

    /// Sends the remaining queries before the first change of the device, then runs the preflight.
    ///
    /// - Returns: false if a query must be answered first, or if the session has failed.
    private mutating func isReady(for list: SMPImageList) -> Bool {
        guard device.isSurveyed else {
            survey()
            return false
        }
        if beginProbe() { return false }
        guard let push, !push.isChecked else { return true }
        let preflight = SMPPreflight(
            push: push, device: device, list: list, valueLength: valueLength)
        do throws(UpdateError) {
            for remark in try preflight.check() { report(remark) }
        } catch {
            fail(error)
            return false
        }
        self.push?.isChecked = true
        return true
    }

    /// Marks an image for boot that is in the device's image list.
    ///
    /// A device lists an image as soon as its header and records are present, even if other bytes are missing. If the device restarted
    /// before the last byte, or if it has reported another digest, the image is sent first.
    private mutating func markListed(_ image: SMPImage, digest: [UInt8]) {
        guard let push, push.underWay == image.number, !push.complete.contains(image.number) else {
            return mark(image, digest: digest)
        }
        if push.digestMismatches > 0 || push.sentOffset < image.bytes.count { return begin(image) }
        self.push?.uncertain.insert(image.number)
        arrived()
        mark(image, digest: digest)
    }

    private mutating func mark(_ image: SMPImage, digest: [UInt8]) {
        report(.phase(.apply))
        push?.hasActed = true
        askToMark(digest, confirm: push?.options.ending == .permanent)
    }

    /// Handles the answer to a mark request. The answer contains the new image list, or nothing.
    mutating func marked(confirm: Bool, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        progressed()
        list = nil
        guard fields["images"] != nil else { return askNext() }
        try listed(SMPImageList(fields))
    }
}
