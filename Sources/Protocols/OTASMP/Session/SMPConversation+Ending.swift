import OTAFirmware
import OTAUpdate

/// The last part of a push (marks, restart and confirmation), and the tasks `UpdateTask.confirm`, `UpdateTask.discard` and
/// `UpdateTask.restart`.
extension SMPConversation {
    /// The minimum time between two restart requests. It begins when the answer to the earlier request arrives or times out.
    ///
    /// After a device has accepted a restart request, it may still answer other requests for a short time. So an image list that arrives
    /// in this time does not show that the restart failed.
    private static let earliestVerdict = Duration.seconds(5)
    /// The maximum number of restart requests in a session.
    private static let mostRestarts = 3
    /// The pause before the restart request is sent again.
    ///
    /// A device that has just answered may have no free buffer, and would drop an immediate request.
    private static let pauseBeforeRepeat = Duration.milliseconds(200)
    /// The maximum length of the restart window (`ConversationState.restartDeadline`). The window begins with the first restart request.
    /// The first confirm request begins a new window.
    ///
    /// A bootloader swaps images of 2 MB page by page in less than this time.
    private static let longestReturn = Duration.seconds(180)
    /// The maximum number of requests to mark or confirm an image in a session.
    ///
    /// The limit stops a session with a device that accepts every mark and does not change its image list.
    private static let mostMarks = 24

    /// Requests a restart. At the restart, the bootloader boots the marked images, or ends a trial.
    mutating func askToRestart() {
        progressed()
        if restarts == 0 {
            enter(.restarting)
            report(.phase(.restart))
        }
        requestRestart(.reset)
    }

    /// Sends a restart request, and begins the restart window.
    mutating func requestRestart(_ request: SMPRequest) {
        restart = .asked
        restarts += 1
        shared.restartDeadline = shared.restartDeadline ?? shared.now + Self.longestReturn
        guard restarts > 1 else { return ask(request) }
        pause(Self.pauseBeforeRepeat, then: .ask(SMPExchange(request, busyEnd: shared.busyEnd)))
    }

    /// True if the device has not restarted after the last request, and the request may be repeated.
    var mayRepeatRestart: Bool {
        guard case .under(let instant) = restart else { return false }
        return shared.now >= instant + Self.earliestVerdict && restarts < Self.mostRestarts
    }

    /// True if the device has not restarted after the last restart request that the session may send.
    var hasRestartFailed: Bool {
        guard case .under(let instant) = restart else { return false }
        return shared.now >= instant + Self.earliestVerdict && restarts >= Self.mostRestarts
    }

    /// Handles the answer to the restart request, or the timeout of the restart request.
    ///
    /// - Parameter isAnswered: false after the timeout. The device may have restarted.
    mutating func restarted(isAnswered: Bool = true) {
        restart = .under(since: shared.now)
        if case .restart = task {
            guard isAnswered else {
                return fail(UpdateError(.noAnswer, "no answer to the restart request; the device may have restarted"))
            }
            return finish(.done, device.hasFirmwareLoader ? describeLoader() : describe(link.list ?? SMPImageList([])))
        }
        if device.hasFirmwareLoader { restartedWithLoader(isAnswered: isAnswered) }
        reconnect(.afterRestart(reportsPhase: false))
    }

    /// Handles an image list of a device that has not restarted yet. Waits for the restart, or requests the restart again.
    mutating func awaitRestart() {
        if mayRepeatRestart { return askToRestart() }
        guard let end = shared.restartDeadline, shared.now < end else {
            return fail(UpdateError(.didNotReturn, "the device answers and does not restart"))
        }
        reconnect(.afterRestart(reportsPhase: false))
    }

    /// Requests that the device marks or confirms an image.
    ///
    /// - Parameter digest: the digest of the image in the image list; nil for the running image with the image number 0.
    mutating func askToMark(_ digest: [UInt8]?, confirm: Bool) {
        // A device may accept every request and never confirm its image. So the session fails at the end of the restart window.
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

    /// Confirms an image on trial. For image 0 the request has no digest, so the device confirms the running image.
    mutating func confirm(_ image: Int, digest: [UInt8]?) {
        enter(.confirming)
        report(.phase(.confirm))
        push?.hasActed = true
        // If the link is lost during the confirmation, the session tries to reconnect until `restartDeadline`.
        if !hasConfirmed { shared.restartDeadline = shared.now + Self.longestReturn }
        hasConfirmed = true
        askToMark(image == 0 ? nil : digest, confirm: true)
    }

    /// Ends a push with success, because all images run and are confirmed.
    mutating func finish(_ list: SMPImageList) {
        guard let push else { return }
        guard push.hasActed else { return finish(.alreadyRunning, describe(list)) }
        report(.confirmed(version: list.running(0)?.version ?? ""))
        finish(.confirmed, describe(list))
    }

    // MARK: A restarted device with a new address

    /// True in a push with a trial.
    ///
    /// The digest of the running image identifies the device, but only while the image is on trial: another device of the same product can
    /// have the same image confirmed since an earlier update. So after an update without a trial, the device is not recognized.
    package var recognizesCandidates: Bool {
        guard let push, case .under = restart else { return false }
        return push.options.ending == .confirm || push.options.ending == .trial
    }

    /// Accepts or rejects the candidate of the link by its image list.
    ///
    /// - Returns: true if the candidate is the device, or if the link is not to a candidate.
    mutating func isDevice(_ list: SMPImageList) -> Bool {
        guard shared.isCandidate else { return true }
        guard let push, SMPPlan(push: push, list: list, wasRestarted: true).runOnTrial,
            push.images.contains(where: { list.running($0.number)?.confirmed == false })
        else {
            reject(Self.difference(of: list.running(0)))
            return false
        }
        acceptCandidate()
        return true
    }

    private static func difference(of running: SMPImageList.Entry?) -> String {
        guard let running else { return "does not list its running image" }
        guard running.confirmed == false else { return "runs version \(running.version), which is not on trial" }
        return "has another image on trial, version \(running.version)"
    }

    // MARK: UpdateTask.confirm and UpdateTask.discard

    /// Fails if the device does not report which image runs.
    ///
    /// - Returns: true if the device reports it.
    private mutating func requireRunning(_ list: SMPImageList) -> Bool {
        guard !list.reportsRunning else { return true }
        fail(
            UpdateError(
                .unsupportedDevice,
                "the device's image list does not show which image runs, as in the serial recovery of MCUboot"))
        return false
    }

    mutating func beginConfirm(_ list: SMPImageList) {
        guard requireRunning(list) else { return }
        if let entry = list.entries.first(where: { $0.active == true && $0.confirmed == false }) {
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

    mutating func beginDiscard(_ list: SMPImageList, erasesImage: Bool) {
        guard requireRunning(list) else { return }
        let isOnTrial = list.entries.contains { $0.active == true && $0.confirmed == false }
        if restart != .none { return isOnTrial ? awaitRestart() : finish(.done, describe(list)) }
        if isOnTrial { return askToRestart() }
        if let pending = list.entries.first(where: { $0.pending == true && $0.active != true }) {
            let advice = pending.permanent == true ? "" : ": discard the image after it has booted"
            return fail(SMPPlan.marked(pending, ", and SMP cannot remove the mark\(advice)"))
        }
        guard let slot = list.slotToErase(0) else { return finish(.done, describe(list)) }
        let held = list.others(0).first
        if let held, !erasesImage {
            return fail(
                UpdateError(
                    .slotHoldsImage,
                    "no update is under way, and slot \(slot) has the complete image of version \(held.version)"))
        }
        // The result names the erased image. So record the image before the erase: if the answer to the erase is lost, the next image list
        // does not have this image.
        if erasedSlot == nil {
            erasedSlot = ErasedSlot(slot: slot, held: held.map { DeviceDescription.ImageSlot($0) })
        }
        enter(.sending)
        erase(slot: slot)
    }

    /// Requests the restart for `UpdateTask.restart`. If the link was lost after the request, the device answers again now.
    mutating func beginRestart(_ list: SMPImageList) {
        guard restart == .none else { return finish(.done, describe(list)) }
        restartOnly()
    }

    mutating func restartOnly() {
        enter(.restarting)
        report(.phase(.restart))
        restart = .asked
        ask(.reset)
    }

    /// Returns whether the device refused an erase of image 0 with this error only because the slot is empty.
    ///
    /// In this case the error is 1 (unknown error), and the device's image list has no image in the slot.
    func isEmptySlot(_ error: SMPError) -> Bool {
        (link.list?.others(0).isEmpty ?? true) && [SMPError.image(1), SMPError(code: 1)].contains(error)
    }

    /// Handles the answer to an erase.
    ///
    /// - Parameter wasEmpty: true if the device refused the erase because the slot is empty.
    mutating func erased(wasEmpty: Bool = false) {
        if let image = push?.toErase { return begin(afterErasing: image) }
        guard let list = link.list else { return }
        // If `held` is not nil, the slot contained an image before the first erase request. A refusal then means that an earlier erase
        // request has erased the slot, and that the answer to the earlier request was lost.
        if erasedSlot?.held == nil { erasedSlot?.wasEmpty = wasEmpty }
        finish(.done, describe(list))
    }
}
