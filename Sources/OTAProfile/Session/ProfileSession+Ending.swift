import OTAFirmware
import OTASigning
import OTAUpdate

/// From the verified image to the confirmed one, and the tasks that need no image.
extension ProfileSession {
    /// A device restarts when the host is gone, or 2 s after APPLY; before that its old image may still answer.
    private static let soonestVerdict = Duration.seconds(4)
    private static let mostApplies = 2
    private static let mostConfirms = 24

    mutating func imageVerified() {
        guard let push, let finding else { return }
        retry.progressed()
        report(.phase(.apply))
        self.push?.apply = .asked
        lookUntil = now + finding.longestReturn
        ask(.apply(permanent: push.options.ending == .permanent))
    }

    mutating func applied() {
        guard let finding else { return }
        push?.apply = .answered(at: now)
        lookUntil = now + finding.longestReturn
        letRestart()
    }

    /// The device is back after APPLY, or after a link that broke before APPLY was answered.
    mutating func judgeRestart(_ finding: Finding) {
        guard let push else { return }
        let runsNew = push.preflight.runs(on: finding)
        if finding.state == .trial {
            guard runsNew else {
                return fail(
                    UpdateError(.protocolViolation, "version \(finding.version) is on trial, not \(push.version)"))
            }
            return confirmOrLeave(finding)
        }
        if runsNew, isThereToStay(push, finding) {
            report(.confirmed(version: finding.version.text))
            return finish(.confirmed, described(finding))
        }
        switch push.apply {
        case .answered(let instant) where now < instant + Self.soonestVerdict,
            .unanswered(let instant) where now < instant + Self.soonestVerdict:
            letRestart()
        case .answered:
            fail(UpdateError(.rolledBack, "the device runs version \(finding.version) again, not \(push.version)"))
        case .none, .asked, .unanswered: applyOnceMore(finding)
        }
    }

    /// An old image of the same version, on a device that does not tell digests, must not pass for the new one.
    private func isThereToStay(_ push: Push, _ finding: Finding) -> Bool {
        if finding.info.running != nil || push.previous?.version != finding.version { return true }
        if hasEndedTrial { return true }
        if case .answered = push.apply { return push.options.ending == .permanent }
        return false
    }

    /// APPLY's answer never came, and the old version runs: APPLY never arrived.
    private mutating func applyOnceMore(_ finding: Finding) {
        guard let push, push.appliedAgain < Self.mostApplies else {
            return fail(UpdateError(.linkLost, "the link breaks whenever the image is to be applied"))
        }
        self.push?.appliedAgain += 1
        self.push?.apply = .none
        lookUntil = nil
        beginPush(finding)
    }

    mutating func confirmOrLeave(_ finding: Finding) {
        // Also where an earlier run applied it, or the answer never came: from here on an old version means that the
        // device went back.
        push?.apply = .answered(at: now)
        guard push?.options.ending != .trial else {
            return finish(.onTrial(seconds: finding.info.trialSeconds), described(finding))
        }
        askToConfirm(finding)
    }

    private mutating func askToConfirm(_ finding: Finding) {
        // A device that keeps answering does not extend the time limit.
        if hasEndedTrial, let lookUntil, now >= lookUntil {
            return fail(
                UpdateError(.didNotReturn, "the device answers, and is still on trial when the time limit has passed"))
        }
        confirms += 1
        guard confirms <= Self.mostConfirms else {
            return fail(UpdateError(.protocolViolation, "the device accepts CONFIRM and stays on trial"))
        }
        report(.phase(.confirm))
        if !hasEndedTrial {
            // A break from here on is settled by another look, for as long as the trial may last.
            lookUntil = now + finding.longestReturn
        }
        hasEndedTrial = true
        ask(.confirm)
    }

    /// The device answered CONFIRM.
    mutating func confirmed() {
        guard let finding else { return }
        // Without a bundle only the device can tell what its security counter has become.
        guard let push else { return survey() }
        report(.confirmed(version: finding.version.text))
        var device = described(finding)
        device.state = .idle
        device.securityCounter = push.bundle.bundle.envelope.manifest.securityCounter
        finish(.confirmed, device)
    }

    private func described(_ finding: Finding) -> DeviceDescription {
        var device = finding.description
        device.previousVersion = push?.previous?.version.text
        return device
    }

    // MARK: The tasks confirm and discard

    mutating func beginConfirm(_ finding: Finding) {
        if finding.state == .trial { return askToConfirm(finding) }
        if hasEndedTrial {
            guard finding.version == first?.version, finding.info.running == first?.info.running else {
                return fail(UpdateError(.rolledBack, "the device runs version \(finding.version) again"))
            }
            report(.confirmed(version: finding.version.text))
            return finish(.confirmed, finding.description)
        }
        fail(UpdateError(.notInTrial, "version \(finding.version) is not on trial"))
    }

    mutating func beginDiscard(_ finding: Finding) {
        if hasEndedTrial, finding.state != .trial {
            var device = finding.description
            if finding.version != first?.version { device.previousVersion = first?.version.text }
            return finish(.done, device)
        }
        if finding.state == .trial {
            hasEndedTrial = true
            let until = lookUntil ?? now + finding.longestReturn
            guard now <= until else {
                return fail(UpdateError(.didNotReturn, "the device accepts DISCARD and stays on trial"))
            }
            lookUntil = until
        }
        ask(.discard)
    }

    mutating func discarded() {
        guard let finding else { return }
        guard finding.state == .trial else {
            var device = finding.description
            device.held = nil
            if let held = finding.info.held { report(.discarded(offset: held.offset)) }
            return finish(.done, device)
        }
        letRestart()
    }
}
