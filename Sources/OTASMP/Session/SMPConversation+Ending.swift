import OTAUpdate

/// The end of a push: restart and confirmation. Also the tasks `confirm` and `discard`.
extension SMPConversation {
    /// The time in which an answer does not mean that the restart failed: a device may still answer for a short time after it has
    /// accepted the restart request.
    private static let earliestVerdict = Duration.seconds(5)
    private static let mostRestarts = 3
    /// The pause before the restart request is sent again. A device that has just answered may have no free buffer, and then it drops
    /// the request.
    private static let pauseBeforeRepeat = Duration.milliseconds(200)
    /// The maximum time from the restart request until the device must be back. A bootloader swaps two megabytes in this time, page by
    /// page.
    private static let longestReturn = Duration.seconds(180)
    private static let mostMarks = 24

    /// Requests the restart that boots the marked images.
    mutating func askToRestart() {
        progressed()
        if restarts == 0 { report(.phase(.restart)) }
        restart = .asked
        restarts += 1
        shared.restartDeadline = shared.restartDeadline ?? shared.now + Self.longestReturn
        guard restarts > 1 else { return ask(.reset) }
        ask(.reset, after: Self.pauseBeforeRepeat)
    }

    /// Handles the answer to the restart request, or its absence.
    mutating func restarted() {
        restart = .under(since: shared.now)
        reconnect(.afterRestart(reportsPhase: false))
    }

    /// Handles an answer that shows that the device has not restarted yet. Waits for the restart, or requests it again.
    private mutating func awaitRestart() {
        if case .under(let instant) = restart, shared.now >= instant + Self.earliestVerdict,
            restarts < Self.mostRestarts
        {
            return askToRestart()
        }
        guard let end = shared.restartDeadline, shared.now < end else {
            return fail(UpdateError(.didNotReturn, "the device answers and does not restart"))
        }
        reconnect(.afterRestart(reportsPhase: false))
    }

    /// Handles an image list in which not all new images run, after a restart or a trial. If an image is still marked, the device has
    /// not restarted yet.
    mutating func checkRestart(_ plan: SMPPlan, _ list: SMPImageList) {
        if plan.somePending { return awaitRestart() }
        let running = list.running(0)?.version ?? "unknown"
        fail(
            UpdateError(
                .rolledBack,
                "the device runs version \(running), not \(push?.images.first?.version ?? ""): its bootloader refused the "
                    + "image (wrong signing key or damaged bytes), or the trial ended"
            ))
    }

    /// Marks an image for boot, or confirms it.
    ///
    /// - Parameter digest: the digest of the image in the list; nil: the running image of the main processor.
    mutating func askToMark(_ digest: [UInt8]?, confirm: Bool) {
        // The time limit also applies to a device that answers all the time but never restarts.
        if let end = shared.restartDeadline, shared.now >= end {
            return fail(
                UpdateError(
                    .didNotReturn,
                    "the device answers, and its list still shows the image on trial when the time limit has passed"))
        }
        marks += 1
        guard marks <= Self.mostMarks else {
            return fail(UpdateError(.protocolViolation, "the device accepts a mark for an image and does not list it"))
        }
        ask(.setState(digest: digest, confirm: confirm))
    }

    /// Confirms an image on trial. For the main processor the request has no digest, so the device confirms the running image.
    mutating func confirm(_ image: Int, digest: [UInt8]?) {
        report(.phase(.confirm))
        push?.hasActed = true
        // If the link is lost during the confirmation, the session tries to reconnect until this time, and then reads the image list.
        if !hasConfirmed { shared.restartDeadline = shared.now + Self.longestReturn }
        hasConfirmed = true
        askToMark(image == 0 ? nil : digest, confirm: true)
    }

    /// Reports the success of a push, when all images run and are confirmed.
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
                    "version \(pending.version) in slot \(pending.slot) is marked for the next boot, and SMP cannot remove "
                        + "the mark: discard the image after it has booted", isMarkedForBoot: true))
        }
        guard let slot = list.slotToErase(0) else { return finish(.done, describe(list)) }
        // If the answer to the erase is lost, the next list does not have the image any more.
        if shared.erased == nil {
            shared.erased = ErasedSlot(slot: slot, held: list.others(0).first.map { DeviceDescription.ImageSlot($0) })
        }
        erase(slot: slot)
    }

    /// Returns whether an erase failed only because the slot is empty. In that case the image list has no image in that slot.
    func isEmptySlot(_ error: SMPError) -> Bool {
        (list?.others(0).isEmpty ?? true) && [SMPError.image(1), SMPError(code: 1)].contains(error)
    }

    /// Handles the answer to an erase.
    ///
    /// - Parameter wasEmpty: true if the device refused the erase because the slot is empty.
    mutating func erased(wasEmpty: Bool = false) {
        if let number = push?.toErase { return begin(afterErasing: number) }
        guard let list else { return }
        // After a lost answer, a refusal shows only that the earlier request has erased the slot.
        if shared.erased?.held == nil { shared.erased?.wasEmpty = wasEmpty }
        finish(.done, describe(list))
    }
}
