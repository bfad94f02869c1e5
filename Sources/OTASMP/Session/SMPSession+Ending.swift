import OTAUpdate

/// From the restart to the confirmed image, and the tasks that need no image.
extension SMPSession {
    /// A device answers for a while after it has said that it restarts.
    private static let earliestVerdict = Duration.seconds(5)
    private static let mostRestarts = 3
    /// A device that is out of buffers right after an answer drops the request for a restart.
    private static let pauseBeforeRepeat = Duration.milliseconds(200)
    /// A bootloader swaps two megabytes, page by page.
    private static let longestReturn = Duration.seconds(180)
    private static let mostMarks = 24

    mutating func askToRestart() {
        retry.progressed()
        if restarts == 0 { report(.phase(.restart)) }
        restart = .asked
        restarts += 1
        lookUntil = lookUntil ?? now + Self.longestReturn
        guard restarts > 1 else { return ask(.reset) }
        stage = .pausing(
            until: now + Self.pauseBeforeRepeat, then: .ask(.reset, busyUntil: now + SMPExchange.busyLimit))
    }

    /// The answer to reset came, or did not come in time.
    mutating func restarted() {
        restart = .under(since: now)
        close(.restart)
    }

    /// The device answers as before its restart: it has not come to it yet, or was never asked.
    private mutating func awaitRestart() {
        if case .under(let instant) = restart, now >= instant + Self.earliestVerdict, restarts < Self.mostRestarts {
            return askToRestart()
        }
        guard let lookUntil, now < lookUntil else {
            return fail(UpdateError(.didNotReturn, "the device answers, and does not restart"))
        }
        close(.restart)
    }

    /// Not all of the images run, after a restart or a trial. One that is still marked has not had its start.
    mutating func checkRestart(_ plan: SMPPlan, _ list: SMPImageList) {
        if plan.somePending { return awaitRestart() }
        let running = list.running(0)?.version ?? "of no number"
        fail(
            UpdateError(
                .rolledBack,
                "the device runs version \(running), not \(push?.images.first?.version ?? ""): its bootloader refused the "
                    + "image, as one that is signed with another key or was damaged on its way, or the trial ended by itself"
            ))
    }

    mutating func askToMark(_ digest: [UInt8]?, confirm: Bool) {
        // A device that keeps answering does not extend the time limit.
        if let lookUntil, now >= lookUntil {
            return fail(
                UpdateError(
                    .didNotReturn,
                    "the device answers, and its list still shows the image on trial when the time limit has passed"))
        }
        marks += 1
        guard marks <= Self.mostMarks else {
            return fail(UpdateError(.protocolViolation, "the device takes a mark for an image, and does not show it"))
        }
        ask(.setState(digest: digest, confirm: confirm))
    }

    /// Without a digest the main processor's running image is meant.
    mutating func confirm(_ image: Int, digest: [UInt8]?) {
        report(.phase(.confirm))
        push?.hasActed = true
        // A break from here on is settled by another look.
        if !hasConfirmed { lookUntil = now + Self.longestReturn }
        hasConfirmed = true
        askToMark(image == 0 ? nil : digest, confirm: true)
    }

    mutating func finish(_ list: SMPImageList) {
        guard let push else { return }
        guard push.hasActed else { return finish(.alreadyRunning, describe(list)) }
        report(.confirmed(version: list.running(0)?.version ?? ""))
        finish(.confirmed, describe(list))
    }

    // MARK: The tasks confirm and discard

    mutating func beginConfirm(_ list: SMPImageList) {
        if let entry = list.entries.first(where: { $0.active && !$0.confirmed }) {
            return confirm(entry.image, digest: entry.digest)
        }
        let version = list.running(0)?.version ?? ""
        guard hasConfirmed else {
            return fail(UpdateError(.notInTrial, "version \(version) is not on trial"))
        }
        guard list.runningDigests == first?.runningDigests else {
            return fail(UpdateError(.rolledBack, "the device runs version \(version) again"))
        }
        report(.confirmed(version: version))
        finish(.confirmed, describe(list))
    }

    mutating func beginDiscard(_ list: SMPImageList) {
        let isOnTrial = list.entries.contains { $0.active && !$0.confirmed }
        if restart != .none { return isOnTrial ? awaitRestart() : finish(.done, describe(list)) }
        if isOnTrial { return askToRestart() }
        if let pending = list.entries.first(where: { $0.pending && !$0.active }) {
            return fail(
                UpdateError(
                    .inTrial,
                    "version \(pending.version) in slot \(pending.slot) waits for the next start, and SMP cannot take that "
                        + "back: give it up once it runs"))
        }
        guard let slot = list.slotToErase(0) else { return finish(.done, describe(list)) }
        erase(slot: slot)
    }

    /// An error that stands for nothing to erase, where nothing is listed.
    func isEmptySlot(_ error: SMPError) -> Bool {
        (list?.others(0).isEmpty ?? true) && [SMPError.image(1), SMPError(code: 1)].contains(error)
    }

    mutating func erased() {
        if let number = push?.toErase { return begin(afterErasing: number) }
        guard let list else { return }
        finish(.done, describe(list))
    }
}
