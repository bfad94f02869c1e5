import OTAFirmware
import OTASigning
import OTAUpdate

/// The end of a push: APPLY, restart and CONFIRM. Also the tasks `confirm` and `discard`.
extension ProfileConversation {
    /// The time in which the old image may still answer after APPLY. A device restarts when the host disconnects, or 2 s after APPLY.
    private static let earliestVerdict = Duration.seconds(4)
    private static let mostApplies = 2
    private static let mostConfirms = 24

    /// Handles the answer to FINISH of the image.
    mutating func imageVerified() {
        guard let push, let snapshot else { return }
        progressed()
        report(.phase(.apply))
        self.push?.apply = .asked
        shared.restartDeadline = shared.now + snapshot.longestReturn
        ask(.apply(permanent: push.options.ending == .permanent))
    }

    /// Handles the answer to APPLY. The device restarts after the host disconnects.
    mutating func applied() {
        guard let snapshot else { return }
        push?.apply = .answered(at: shared.now)
        shared.restartDeadline = shared.now + snapshot.longestReturn
        reconnect(.afterRestart(reportsPhase: true))
    }

    /// Checks the device after APPLY, or after a link that broke before the answer to APPLY.
    mutating func checkRestart(_ snapshot: DeviceSnapshot) {
        guard let push else { return }
        let runsNew = push.preflight.runs(on: snapshot)
        if snapshot.state == .trial {
            guard runsNew else {
                return fail(
                    UpdateError(.protocolViolation, "version \(snapshot.version) is on trial, not \(push.version)"))
            }
            return confirmOrLeave(snapshot)
        }
        if runsNew, isPermanent(push, snapshot) {
            report(.confirmed(version: snapshot.version.text))
            return finish(.confirmed, described(snapshot))
        }
        switch push.apply {
        case .answered(let instant) where shared.now < instant + Self.earliestVerdict,
            .unanswered(let instant) where shared.now < instant + Self.earliestVerdict:
            reconnect(.afterRestart(reportsPhase: true))
        case .answered:
            fail(UpdateError(.rolledBack, "the device runs version \(snapshot.version) again, not \(push.version)"))
        case .none, .asked, .unanswered: applyOnceMore(snapshot)
        }
    }

    /// Whether the running image is certainly the new one and permanent.
    ///
    /// Some devices do not report digests. On them, an old image of the same version must not count as the new image.
    private func isPermanent(_ push: Push, _ snapshot: DeviceSnapshot) -> Bool {
        if snapshot.info.running != nil || push.previous?.version != snapshot.version { return true }
        if hasEndedTrial { return true }
        if case .answered = push.apply { return push.options.ending == .permanent }
        return false
    }

    /// Sends APPLY again, because the first one did not arrive: it has no answer, and the old version still runs.
    private mutating func applyOnceMore(_ snapshot: DeviceSnapshot) {
        guard let push, push.appliedAgain < Self.mostApplies else {
            return fail(UpdateError(.linkLost, "the link was lost after each APPLY"))
        }
        self.push?.appliedAgain += 1
        self.push?.apply = .none
        shared.restartDeadline = nil
        beginPush(snapshot)
    }

    /// Confirms the image on trial, or leaves it on trial if the task requires this.
    mutating func confirmOrLeave(_ snapshot: DeviceSnapshot) {
        // APPLY has been performed, even if its answer was lost or an earlier run sent it. If the old version runs after this point,
        // the device rolled back.
        push?.apply = .answered(at: shared.now)
        guard push?.options.ending != .trial else {
            return finish(.onTrial(seconds: snapshot.info.trialSeconds), described(snapshot))
        }
        askToConfirm(snapshot)
    }

    private mutating func askToConfirm(_ snapshot: DeviceSnapshot) {
        // The time limit also applies to a device that answers all the time but never ends the trial.
        if hasEndedTrial, let end = shared.restartDeadline, shared.now >= end {
            return fail(
                UpdateError(.didNotReturn, "the device answers, and is still on trial when the time limit has passed"))
        }
        confirms += 1
        guard confirms <= Self.mostConfirms else {
            return fail(UpdateError(.protocolViolation, "the device accepts CONFIRM and stays on trial"))
        }
        report(.phase(.confirm))
        if !hasEndedTrial {
            // If the link is lost before the answer, the session tries to reconnect until this time, and then reads the status.
            shared.restartDeadline = shared.now + snapshot.longestReturn
        }
        hasEndedTrial = true
        ask(.confirm)
    }

    /// Handles the answer to CONFIRM.
    mutating func confirmed() {
        guard let snapshot else { return }
        // The task `confirm` has no bundle with the new security counter, so the device's status is read once more.
        guard let push else { return begin() }
        report(.confirmed(version: snapshot.version.text))
        var device = described(snapshot)
        device.state = .idle
        device.securityCounter = push.bundle.manifest.securityCounter
        finish(.confirmed, device)
    }

    private func described(_ snapshot: DeviceSnapshot) -> DeviceDescription {
        var device = snapshot.description
        device.previousVersion = push?.previous?.version.text
        return device
    }

    // MARK: The tasks confirm and discard

    mutating func beginConfirm(_ snapshot: DeviceSnapshot) {
        if snapshot.state == .trial { return askToConfirm(snapshot) }
        if hasEndedTrial {
            guard snapshot.version == first?.version, snapshot.info.running == first?.info.running else {
                return fail(UpdateError(.rolledBack, "the device runs version \(snapshot.version) again"))
            }
            report(.confirmed(version: snapshot.version.text))
            return finish(.confirmed, snapshot.description)
        }
        fail(UpdateError(.notInTrial, "version \(snapshot.version) is not on trial"))
    }

    mutating func beginDiscard(_ snapshot: DeviceSnapshot) {
        if hasEndedTrial, snapshot.state != .trial {
            var device = snapshot.description
            if snapshot.version != first?.version { device.previousVersion = first?.version.text }
            return finish(.done, device)
        }
        if snapshot.state == .trial {
            hasEndedTrial = true
            let end = shared.restartDeadline ?? shared.now + snapshot.longestReturn
            guard shared.now <= end else {
                return fail(UpdateError(.didNotReturn, "the device accepts DISCARD and stays on trial"))
            }
            shared.restartDeadline = end
        } else if let held = snapshot.description.held {
            // After a lost answer, the next status no longer lists the partial upload.
            shared.discarded = held
        }
        ask(.discard)
    }

    /// Handles the answer to DISCARD.
    mutating func discarded() {
        guard let snapshot else { return }
        guard snapshot.state == .trial else {
            var device = snapshot.description
            device.held = nil
            if let held = snapshot.info.held { report(.discarded(offset: held.offset)) }
            return finish(.done, device)
        }
        reconnect(.afterRestart(reportsPhase: true))
    }
}
