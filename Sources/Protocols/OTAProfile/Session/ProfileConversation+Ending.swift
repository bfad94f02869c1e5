import OTAFirmware
import OTASigning
import OTAUpdate

/// The last part of a push (APPLY, restart and CONFIRM), and the cases `confirm` and `discard` of `UpdateTask`.
extension ProfileConversation {
    /// The time after APPLY during which the old image may still answer.
    ///
    /// A device restarts when the host disconnects, at the latest 2 s after APPLY. 4 s include a margin of 2 s.
    private static let earliestVerdict = Duration.seconds(4)
    /// The maximum number of times that a push begins again because APPLY had no effect (docs/ota-profile.md, "What the host does").
    private static let mostApplies = 2
    /// The maximum number of CONFIRM requests in a session.
    ///
    /// The limit stops a session with a device that accepts every CONFIRM at once and stays on trial. The time limit in `askToConfirm`
    /// alone would allow many more requests.
    private static let mostConfirms = 24

    /// Handles the answer *ok* to FINISH of the image: sends APPLY.
    mutating func imageVerified() {
        guard let push, let snapshot else { return }
        progressed()
        enter(.marked)
        report(.phase(.apply))
        self.push?.apply = .asked
        shared.restartDeadline = shared.now + snapshot.longestReturn
        ask(.apply(permanent: push.options.ending == .permanent))
    }

    /// Handles the answer *ok* to APPLY: closes the link, because the device restarts when the host disconnects.
    mutating func applied() {
        guard let snapshot else { return }
        push?.apply = .answered(at: shared.now)
        shared.restartDeadline = shared.now + snapshot.longestReturn
        reconnect(.afterRestart(reportsPhase: true))
    }

    /// Determines the result of APPLY from the device's status on a new link. The answer to APPLY may have been lost.
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
            reconnect(.afterRestart(reportsPhase: false))
        case .answered:
            fail(UpdateError(.rolledBack, "the device runs version \(snapshot.version) again, not \(push.version)"))
        case .none, .asked, .unanswered: applyOnceMore(snapshot)
        }
    }

    /// Returns true if it is certain that the device runs the new image permanently. The caller has checked that the new version runs.
    ///
    /// Some devices do not report the digest of the running image. If such a device ran an old image of the same version before the push,
    /// the version does not show which of the two images runs. The function then requires another proof: the session ended a trial, or the
    /// device answered a permanent APPLY.
    private func isPermanent(_ push: Push, _ snapshot: DeviceSnapshot) -> Bool {
        if snapshot.info.running != nil || push.previous?.version != snapshot.version { return true }
        if hasEndedTrial { return true }
        if case .answered = push.apply { return push.options.ending == .permanent }
        return false
    }

    /// Begins the push again, because APPLY had no effect: no answer arrived, and the old image still runs.
    private mutating func applyOnceMore(_ snapshot: DeviceSnapshot) {
        guard let push, push.appliedAgain < Self.mostApplies else {
            return fail(UpdateError(.linkLost, "the link was lost after each APPLY"))
        }
        self.push?.appliedAgain += 1
        self.push?.apply = .none
        shared.restartDeadline = nil
        enter(.sending)
        beginPush(snapshot)
    }

    /// Confirms the image on trial. With the option `UpdateOptions.Ending.trial`, finishes the push and leaves the image on trial.
    mutating func confirmOrLeave(_ snapshot: DeviceSnapshot) {
        // The trial shows that the device performed APPLY, even if no answer arrived in this session. If the old version runs later,
        // the device has rolled back.
        push?.apply = .answered(at: shared.now)
        guard push?.options.ending != .trial else {
            return finish(.onTrial(seconds: snapshot.info.trialSeconds), described(snapshot))
        }
        askToConfirm(snapshot)
    }

    private mutating func askToConfirm(_ snapshot: DeviceSnapshot) {
        // The device must end the trial before `shared.restartDeadline`, which the first CONFIRM of the session has set. Without this time
        // limit, a device that always returns on trial could keep the session running for a long time.
        if hasEndedTrial, let end = shared.restartDeadline, shared.now >= end {
            return fail(
                UpdateError(.didNotReturn, "the device answers, and is still on trial when the time limit has passed"))
        }
        confirms += 1
        guard confirms <= Self.mostConfirms else {
            return fail(UpdateError(.protocolViolation, "the device accepts CONFIRM and stays on trial"))
        }
        enter(.confirming)
        report(.phase(.confirm))
        if !hasEndedTrial {
            // If the link is lost before the answer, the session tries to reconnect until this time.
            shared.restartDeadline = shared.now + snapshot.longestReturn
        }
        hasEndedTrial = true
        ask(.confirm)
    }

    /// Handles the answer *ok* to CONFIRM.
    mutating func confirmed() {
        guard let snapshot else { return }
        // The task `confirm` has no bundle, so the new security counter is not known here. Therefore read the status from the device again.
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

    // MARK: UpdateTask.confirm and UpdateTask.discard

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
        enter(.sending)
        if snapshot.state == .trial {
            hasEndedTrial = true
            let end = shared.restartDeadline ?? shared.now + snapshot.longestReturn
            guard shared.now <= end else {
                return fail(UpdateError(.didNotReturn, "the device accepts DISCARD and stays on trial"))
            }
            shared.restartDeadline = end
        } else if let held = snapshot.description.held {
            // Record the partial upload now. If the answer to DISCARD is lost, the device's next status no longer lists the partial upload.
            shared.discarded = held
        }
        ask(.discard)
    }

    /// Handles the answer *ok* to DISCARD. If an image is on trial, the device restarts and rolls back.
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
