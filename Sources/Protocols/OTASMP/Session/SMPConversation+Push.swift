import OTAFirmware
import OTASigning
import OTAUpdate

/// The steps of a push, which depend on the device's image list.
extension SMPConversation {
    /// Performs the next step of the push. ``SMPPlan`` determines this step from the image list.
    mutating func proceed(with list: SMPImageList) {
        guard let push else { return }
        let plan = SMPPlan(push: push, list: list, wasRestarted: restart != .none)
        beginChecks()
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

    /// Reports the start of the checks, once in a session.
    mutating func beginChecks() {
        guard let push, push.check == .none else { return }
        report(.phase(.preflight))
        if let base = push.unusedBase {
            report(.note("no base from \(base.name): SMP does not support encoded images"))
        }
        self.push?.check = .begun
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
        // If the device already runs the image, the push changes nothing. Only a wrong product is then an error.
        let changesNothing = if case .finish = plan.step { true } else { false }
        return isForTarget(changesNothing: changesNothing) { image in
            // If the bundle's image already runs, the other slot has the image that ran before.
            let isRunning = [.onTrial, .running].contains(plan.state(of: image))
            return isRunning ? plan.list.others(image.number).first : plan.list.running(image.number)
        }
    }

    /// - Parameter previous: returns the image that an image of the push replaces or has replaced.
    mutating func isForTarget(changesNothing: Bool, replacing previous: (SMPImage) -> SMPImageList.Entry?) -> Bool {
        guard let push, push.check < .target else { return true }
        let bundled = push.images.compactMap { image in image.verified.manifest.map { (image, $0) } }
        guard !bundled.isEmpty else { return true }
        guard device.wasAskedForBoard else {
            ask(.system(format: "i"))
            return false
        }
        let needsInfo =
            device.hasFirmwareLoader || bundled.contains { SMPTarget.needsInfo($0.1, board: device.hardware) }
        guard device.info != nil || !needsInfo else {
            ask(.deviceInfo)
            return false
        }
        let info = device.info ?? SMPDeviceInfo()
        do throws(UpdateError) {
            for (image, manifest) in bundled {
                let target = SMPTarget(
                    manifest: manifest, image: image.verified.image, board: device.hardware,
                    info: info,
                    previousVersion: previous(image)?.version ?? (device.hasFirmwareLoader ? info.plainVersion : nil))
                if changesNothing { _ = try target.checkProduct() } else { try check(target) }
            }
        } catch {
            fail(error)
            return false
        }
        self.push?.check = .target
        return true
    }

    private mutating func check(_ target: SMPTarget) throws(UpdateError) {
        let unchecked = try target.uncheckedFields()
        if unchecked.isEmpty { return }
        let names = unchecked.joined(separator: ", ")
        guard push?.options.acceptsUncheckedTarget == true else {
            throw UpdateError(
                .targetUnchecked,
                "SMP cannot check these fields of the bundle against the device: \(names)"
                    + (link.list != nil && device.hasFirmwareLoader ? SMPLoader.uncheckedNote : ""))
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
    mutating func isReady(for list: SMPImageList) -> Bool {
        guard device.isSurveyed else {
            survey()
            return false
        }
        if beginProbe() { return false }
        guard let push, push.check < .preflight else { return true }
        var preflight = SMPPreflight(push: push, device: device, list: list, valueLength: valueLength)
        if device.hasFirmwareLoader {
            preflight.loaderDigestLength = link.list?.entries.compactMap { $0.digest?.count }.first
        }
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
