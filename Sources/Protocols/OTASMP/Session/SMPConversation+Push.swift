import OTAFirmware
import OTASigning
import OTAUpdate

/// The steps of a push, which depend on the device's image list.
extension SMPConversation {
    /// Performs the next step of the push. ``SMPPlan`` determines this step from the image list.
    mutating func proceed(with list: SMPImageList) {
        guard let push else { return }
        let plan = SMPPlan(push: push, list: list, wasRestarted: restart != .none)
        if push.check == .none {
            report(.phase(.preflight))
            if let base = push.unusedBase {
                report(.note("no base from \(base.name): SMP does not support encoded images"))
            }
            self.push?.check = .begun
        }
        guard isForTarget(plan) else { return }
        if plan.runOnTrial { self.push?.sawTrial = true }
        for image in plan.pending { self.push?[image].wasMarked = true }
        if push.options.isDryRun, plan.step.changesDevice { return endDryRun(plan) }
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
        case .awaitRestart: awaitRestart()
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

    /// Compares the fields of each bundle with the device, once in a session, before the first change on the device.
    ///
    /// - Returns: true if the push may continue; false if the conversation first requests the board's name, or if the session has failed.
    private mutating func isForTarget(_ plan: SMPPlan) -> Bool {
        guard let push, push.check < .target else { return true }
        let bundled = push.images.compactMap { image in image.verified.manifest.map { (image, $0) } }
        guard !bundled.isEmpty else { return true }
        guard device.wasAskedForBoard else {
            ask(.system(format: "i"))
            return false
        }
        do throws(UpdateError) {
            for (image, manifest) in bundled { try check(image, manifest, plan) }
        } catch {
            fail(error)
            return false
        }
        self.push?.check = .target
        return true
    }

    private mutating func check(_ image: SMPImage, _ manifest: Manifest, _ plan: SMPPlan) throws(UpdateError) {
        // If the bundle's image already runs, the other slot has the image that ran before.
        let isRunning = [.onTrial, .running].contains(plan.state(of: image))
        let previous = isRunning ? plan.list.others(image.number).first : plan.list.running(image.number)
        let target = SMPTarget(
            manifest: manifest, image: image.verified.image, board: device.hardware,
            previousVersion: previous?.version)
        // If the device already runs the image, the push changes nothing. Only a wrong product is then an error.
        if case .finish = plan.step {
            _ = try target.checkProduct()
            return
        }
        let unchecked = try target.uncheckedFields()
        if unchecked.isEmpty { return }
        let names = unchecked.joined(separator: ", ")
        guard push?.options.acceptsUncheckedTarget == true else {
            throw UpdateError(
                .targetUnchecked, "SMP cannot check these fields of the bundle against the device: \(names)")
        }
        self.unchecked = unchecked
        report(.note("not checked against the device: \(names)"))
    }

    /// Ends a dry run before the first change on the device, after the same queries and checks as in a push.
    private mutating func endDryRun(_ plan: SMPPlan) {
        switch plan.step {
        case .upload, .mark: guard isReady(for: plan.list) else { return }
        default: break
        }
        let bytes = plan.missingBytes
        let erases = push?.options.resume == .never
        finish(.wouldUpdate(UpdatePlan(resumeFrom: bytes > 0 && erases ? 0 : nil, bytes: bytes)), describe(plan.list))
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
        guard let push, push.check < .preflight else { return true }
        let preflight = SMPPreflight(push: push, device: device, list: list, valueLength: valueLength)
        do throws(UpdateError) {
            for remark in try preflight.check() { report(remark) }
        } catch {
            fail(error)
            return false
        }
        self.push?.check = .preflight
        return true
    }

    /// Marks an image of the image list for boot. If the upload of this image is not complete, continues or repeats the upload first.
    ///
    /// A device lists an image when the image's header and TLVs are present, even if other bytes of the image are missing. So if the last
    /// byte was not sent, the upload continues. If the device reported that the received bytes do not have the file's digest, the upload
    /// begins again.
    private mutating func markListed(_ image: SMPImage, digest: [UInt8]) {
        guard let push, let ledger = shared.ledger, push.underWay?.number == image.number, !push[image].isComplete
        else {
            return mark(image, digest: digest)
        }
        if push.digestMismatches > 0 || ledger.sentOffset < image.bytes.count { return begin(image) }
        self.push?[image].isUncertain = true
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
    mutating func marked(_ fields: [String: CBORValue]) throws(SMPFrameError) {
        progressed()
        link.list = nil
        guard fields["images"] != nil else { return askNext() }
        try listed(SMPImageList(fields))
    }
}
