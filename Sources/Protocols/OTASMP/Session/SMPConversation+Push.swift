import OTAFirmware
import OTAUpdate

/// The state of a push, for all links of the session. The sets contain image numbers.
struct SMPPush {
    let images: [SMPImage]
    let options: UpdateOptions

    /// The image number of the current image: the image whose upload began last. Nil if no upload began.
    var underWay: Int?
    /// The images that the device has received completely in this session.
    var complete: Set<Int> = []
    /// True after the push has handled its first image list.
    var hasBegun = false
    /// True after the bundle's fields were compared with the device (``SMPTarget``).
    var isTargetChecked = false
    /// True after the device passed the preflight (``SMPPreflight``).
    var isChecked = false
    /// True after the device accepted the first chunk of the current image in this session.
    var wasOpened = false
    /// The images whose bytes on the device may be damaged.
    ///
    /// The set contains an image in two cases. First: an earlier session sent some bytes of the image. Second: the device did not
    /// acknowledge the last bytes of the image.
    var uncertain: Set<Int> = []
    /// The images that were sent a second time from offset 0, because the device's image list did not have them.
    var sentAgain: Set<Int> = []
    /// The number of the image whose slot must be erased before the image is sent from 0; nil if no erase is necessary.
    var toErase: Int?
    /// How many times the device reported, at the end of an upload, that the received bytes do not have the file's digest.
    var digestMismatches = 0
    /// How many times the device reported that no upload is in progress, although all bytes of the image were sent.
    var stateLosses = 0

    /// True if an image list showed that all images of the push run and that at least one of them is on trial.
    var sawTrial = false
    /// True after the answer to an erase request, until the device reports the first offset of the upload.
    var expectsEmptySlot = false
    /// The images whose upload began in this session.
    var begun: Set<Int> = []
    /// A base that the user named; nil if the user named no base. A note reports that SMP does not use the base.
    var unusedBase: BaseImage?
    /// The images that an image list of this session showed as marked for boot, and as not running.
    var marked: Set<Int> = []
    /// True after this session began an upload, or requested a mark, a restart or a confirmation.
    var hasActed = false

    init(_ images: [SMPImage], _ options: UpdateOptions) {
        self.images = images
        self.options = options
    }

    /// Returns the plan of the push for an image list.
    func plan(_ list: SMPImageList) -> SMPPlan {
        SMPPlan(
            images: images, options: options, list: list, memory: SMPPlan.Memory(received: complete, marked: marked))
    }
}

/// The steps of a push, which depend on the device's image list.
extension SMPConversation {
    /// Performs the next step of the push. ``SMPPlan`` determines this step from the image list.
    mutating func proceed(with list: SMPImageList) {
        guard var push else { return }
        let plan = push.plan(list)
        if !push.hasBegun {
            report(.phase(.preflight))
            if let base = push.unusedBase {
                report(.note("no base from \(base.name): SMP does not support encoded images"))
            }
        }
        push.hasBegun = true
        self.push = push
        guard isForTarget(plan, list) else { return }
        push = self.push ?? push
        push.sawTrial = push.sawTrial || plan.runOnTrial
        push.marked.formUnion(plan.pending.map(\.number))
        self.push = push
        if restart != .none || push.sawTrial, !plan.allRun { return checkRestart(plan, list) }
        if push.options.onlyConfirms, needsBoot(plan.step) {
            return fail(UpdateError(.notInTrial, "the device does not run the image on trial"))
        }
        if push.options.isDryRun, changesDevice(plan.step) { return endDryRun(plan, list) }
        switch plan.step {
        case .upload(let image):
            // The trial of an earlier push may have been confirmed. Its time limit does not apply to the upload.
            if restart == .none {
                shared.restartDeadline = nil
                self.push?.sawTrial = false
            }
            if isReady(for: list) { begin(image) }
        case .mark(let image, let digest): if isReady(for: list) { markListed(image, digest: digest) }
        case .restart:
            self.push?.hasActed = true
            askToRestart()
        case .confirm(let image, let digest): confirm(image.number, digest: digest)
        // Over SMP, a trial has no time limit, so `seconds` is 0. The trial ends at the next restart.
        case .leaveOnTrial:
            noteUnlisted(plan)
            finish(.onTrial(seconds: 0), describe(list))
        case .leaveHeld: finish(.done, describe(list))
        case .finish:
            noteUnlisted(plan)
            finish(list)
        case .blocked(let error): fail(error)
        }
    }

    /// Reports the images whose running image the device does not list. The versions of these images are not checked.
    private mutating func noteUnlisted(_ plan: SMPPlan) {
        unlistedImages = plan.unlisted.map(\.number)
        let again = push?.hasActed == true ? "" : "; to send it again, use --restart"
        for image in plan.unlisted {
            report(
                .note(
                    "image \(image.number), version \(image.version): the device does not list its running image, so it is not checked "
                        + "that this version runs\(again)"))
        }
    }

    /// True if the device must still boot the image: it does not run it, neither on trial nor confirmed.
    private func needsBoot(_ step: SMPPlan.Step) -> Bool {
        switch step {
        case .upload, .mark, .restart, .leaveHeld: true
        case .confirm, .leaveOnTrial, .finish, .blocked: false
        }
    }

    private func changesDevice(_ step: SMPPlan.Step) -> Bool {
        switch step {
        case .upload, .mark, .restart, .confirm: true
        case .leaveOnTrial, .leaveHeld, .finish, .blocked: false
        }
    }

    /// Ends a dry run before the first change on the device, after the same queries and checks as in a push.
    private mutating func endDryRun(_ plan: SMPPlan, _ list: SMPImageList) {
        switch plan.step {
        case .upload, .mark: guard isReady(for: list) else { return }
        default: break
        }
        let bytes = plan.missingBytes
        let erases = push?.options.resume == .never
        finish(.wouldUpdate(UpdatePlan(resumeFrom: bytes > 0 && erases ? 0 : nil, bytes: bytes)), describe(list))
    }

    /// Prepares the first change on the device: sends the remaining queries, and then performs the preflight.
    ///
    /// - Returns: true if the change may follow; false if the conversation waits for the answer to a query, or if the session has failed.
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

    /// Marks an image of the image list for boot. If the upload of this image is not complete, continues or repeats the upload first.
    ///
    /// A device lists an image when the image's header and TLVs are present, even if other bytes of the image are missing. So if the last
    /// byte was not sent, the upload continues. If the device reported that the received bytes do not have the file's digest, the upload
    /// begins again.
    private mutating func markListed(_ image: SMPImage, digest: [UInt8]) {
        guard let push, let ledger = shared.ledger, push.underWay == image.number, !push.complete.contains(image.number)
        else {
            return mark(image, digest: digest)
        }
        if push.digestMismatches > 0 || ledger.sentOffset < image.bytes.count { return begin(image) }
        self.push?.uncertain.insert(image.number)
        arrived()
        mark(image, digest: digest)
    }

    private mutating func mark(_ image: SMPImage, digest: [UInt8]) {
        enter(.marked)
        report(.phase(.apply))
        push?.hasActed = true
        askToMark(digest, confirm: push?.options.ending == .permanent)
    }

    /// Handles the answer to a request to mark or confirm an image. If the answer has no image list, the conversation requests the list.
    mutating func marked(confirm: Bool, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        progressed()
        list = nil
        guard fields["images"] != nil else { return askNext() }
        try listed(SMPImageList(fields))
    }
}
