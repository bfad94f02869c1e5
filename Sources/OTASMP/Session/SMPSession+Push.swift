import OTAUpdate

/// From the first look at the device to the mark for the next start.
extension SMPSession {
    /// What lies in the slots says what is next.
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
        // It lasts until the next restart, whenever that is.
        case .leaveOnTrial: finish(.onTrial(seconds: 0), describe(list))
        case .leaveHeld: finish(.done, describe(list))
        case .finish: finish(list)
        case .blocked(let reason): fail(UpdateError(.inTrial, reason))
        }
    }

    /// Asks what is still to be asked before anything is changed, and checks it.
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
            for remark in try preflight.check() { report(.note(remark)) }
        } catch {
            fail(error)
            return false
        }
        self.push?.isChecked = true
        return true
    }

    /// What is listed has the image's header and records, and is marked. But where not all of it was sent, since the device was
    /// restarted near the end, or where the device has once said that it holds something else, it is sent first.
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

    /// The answer to a mark is the new list, or nothing.
    mutating func marked(confirm: Bool, _ fields: [String: CBORValue]) throws(SMPFrameError) {
        retry.progressed()
        list = nil
        guard fields["images"] != nil else { return askNext() }
        try listed(SMPImageList(fields))
    }
}
