import OTAFirmware
import OTASigning
import OTAUpdate

/// Determines the next step of a task from the device's status, from the accepted requests, and from what this session has already done
/// (``Memory``). A push of a new session begins with an empty memory, so it can continue after any interruption.
struct ProfilePlan {
    /// A step of a task. A push without a fault performs the first six steps in this order.
    enum Step {
        /// Send the envelope. `warning` is for the user.
        case sendEnvelope(warning: UpdateProgress?)
        case sendImage
        /// Mark the image for boot.
        case apply(permanent: Bool)
        /// Close the link, and read the status again after the restart. `isNew` is false if the restart was already reported.
        case awaitRestart(isNew: Bool)
        case confirm
        /// End the task. `last` is the last report to the user.
        case finish(UpdateReport.Outcome, DeviceDescription, last: UpdateProgress? = nil)
        case fail(UpdateError)
        /// Begin the push again, because APPLY had no effect.
        case startOver
        /// End a dry run with this plan, after the size of the encoded image is known.
        case dryRun(UpdatePlan, warning: UpdateProgress?)
        /// Discard the partial upload, or end the trial.
        case discard
        case identify(seconds: UInt8)
        /// Read the status again, on the same link.
        case survey
    }
    /// The state of the request APPLY. The device may perform APPLY even if the link is lost before the answer.
    enum ApplyState: Equatable {
        /// APPLY was not sent.
        case none
        /// APPLY was sent, and the conversation waits for the answer.
        case asked
        /// The link was lost before the answer.
        case unanswered(since: Duration)
        /// The device answered APPLY with *ok*, or the device's status shows that the device performed APPLY.
        case answered(at: Duration)
    }
    /// The facts of this session that the device's status does not show.
    struct Memory {
        /// The device's status at the start of the first link; nil until the first survey is complete.
        var first: DeviceSnapshot?
        /// The device's status before this session sent the envelope; nil if the envelope was not sent.
        var previous: DeviceSnapshot?
        var apply = ApplyState.none
        /// How many times the push began again because an APPLY had no effect.
        var appliedAgain = 0
        /// True after the conversation sent CONFIRM, or sent DISCARD during a trial. The device may have performed the request even if no
        /// answer arrived.
        var hasEndedTrial = false
        /// The number of CONFIRM requests that were sent.
        var confirms = 0
    }

    /// The time after APPLY during which the old image may still answer. A device restarts when the host disconnects, at the latest 2 s
    /// after APPLY. 4 s include a margin of 2 s.
    private static let earliestVerdict = Duration.seconds(4)
    /// The maximum number of times that a push begins again because APPLY had no effect (docs/ota-profile.md, "What the host does").
    private static let mostApplies = 2
    /// The maximum number of CONFIRM requests in a session. It stops a session with a device that accepts every CONFIRM at once and stays
    /// on trial. The time limit in `confirmation()` alone would allow many more requests.
    private static let mostConfirms = 24

    let task: UpdateTask<VerifiedBundle>
    /// The device's status at the start of the link.
    let device: DeviceSnapshot
    let memory: Memory
    let now: Duration
    /// The end of the restart window (`ConversationState.restartDeadline`).
    let windowEnd: Duration?

    /// The step after the survey of a link.
    var step: Step {
        do throws(UpdateError) {
            switch task {
            case .push(let bundle, let options):
                let preflight = Preflight(bundle: bundle, options: options)
                return memory.apply == .none ? try firstStep(preflight) : try stepAfterApply(preflight)
            // A restart cannot occur, because the initializer of `ProfileConversation` refuses it.
            case .status, .restart: return .finish(.done, device.description)
            case .confirm: return try confirmStep()
            case .discard: return try discardStep()
            case .identify(let seconds): return .identify(seconds: seconds)
            }
        } catch {
            return .fail(error)
        }
    }

    /// Returns the step after the device has accepted a request; nil if the transfer of an object continues.
    func step(after request: Request) -> Step? {
        switch request {
        case .begin, .beginEncoded, .sync: return nil
        case .finish(.envelope): return .sendImage
        case .finish(.image): return .apply(permanent: options?.ending == .permanent)
        case .apply: return .awaitRestart(isNew: true)
        case .confirm:
            // The task `confirm` has no bundle, so the new security counter is not known here. Therefore read the status again.
            guard case .push(let bundle, _) = task else { return .survey }
            var device = described
            device.state = .idle
            device.securityCounter = bundle.manifest.securityCounter
            return .finish(.confirmed, device, last: .confirmed(version: device.runningVersion))
        case .discard:
            // A device on trial restarts and rolls back.
            guard device.state != .trial else { return .awaitRestart(isNew: true) }
            var device = device.description
            let held = device.held
            device.held = nil
            return .finish(.done, device, last: held.map { .discarded(offset: $0.offset) })
        case .identify: return .finish(.done, device.description)
        }
    }

    private var options: UpdateOptions? { if case .push(_, let options) = task { options } else { nil } }

    /// The device's status for the report of a push.
    private var described: DeviceDescription {
        var description = device.description
        description.previousVersion = memory.previous?.version.text
        return description
    }

    // MARK: A push

    /// Returns the step of a push that has not sent APPLY.
    private func firstStep(_ preflight: Preflight) throws(UpdateError) -> Step {
        let options = preflight.options
        if device.state == .trial {
            // With `never`, the user requests that the image is sent again, but a device refuses BEGIN during a trial.
            guard options.resume != .never, preflight.runs(on: device) else {
                throw UpdateError(.inTrial, "version \(device.version) is on trial")
            }
            guard options.isDryRun, options.ending != .trial else { return try trialStep(options) }
            return .finish(.wouldUpdate(UpdatePlan(bytes: 0, discards: 0)), device.description)
        }
        if preflight.isProven(on: device) { return .finish(.alreadyRunning, device.description) }
        guard !options.onlyConfirms else {
            throw UpdateError(.notInTrial, "version \(device.version) is not on trial")
        }
        let warning = try preflight.check(device)
        return options.isDryRun
            ? .dryRun(preflight.plan(for: device), warning: warning) : .sendEnvelope(warning: warning)
    }

    /// Returns the step of a push on a link after APPLY. The answer to APPLY may have been lost.
    private func stepAfterApply(_ preflight: Preflight) throws(UpdateError) -> Step {
        let (version, runsNew) = (preflight.bundle.manifest.version, preflight.runs(on: device))
        if device.state == .trial {
            guard runsNew else {
                throw UpdateError(.protocolViolation, "version \(device.version) is on trial, not \(version)")
            }
            return try trialStep(preflight.options)
        }
        if runsNew, isPermanent(preflight.options) {
            return .finish(.confirmed, described, last: .confirmed(version: device.version.text))
        }
        switch memory.apply {
        case .answered(let instant) where now < instant + Self.earliestVerdict,
            .unanswered(let instant) where now < instant + Self.earliestVerdict:
            return .awaitRestart(isNew: false)
        case .answered:
            throw UpdateError(.rolledBack, "the device runs version \(device.version) again, not \(version)")
        case .none, .asked, .unanswered:
            guard memory.appliedAgain < Self.mostApplies else {
                throw UpdateError(.linkLost, "the link was lost after each APPLY")
            }
            return .startOver
        }
    }

    /// Returns true if it is certain that the device, which runs the new version, runs the new image permanently.
    ///
    /// Some devices do not report the digest of the running image. If such a device ran an old image of the same version before the push,
    /// the version does not show which of the two images runs. The function then requires another proof: the session ended a trial, or the
    /// device answered a permanent APPLY.
    private func isPermanent(_ options: UpdateOptions) -> Bool {
        if device.info.running != nil || memory.previous?.version != device.version { return true }
        if memory.hasEndedTrial { return true }
        if case .answered = memory.apply { return options.ending == .permanent }
        return false
    }

    private func trialStep(_ options: UpdateOptions) throws(UpdateError) -> Step {
        if options.ending == .trial { return .finish(.onTrial(seconds: device.info.trialSeconds), described) }
        return try confirmation()
    }

    private func confirmation() throws(UpdateError) -> Step {
        // The device must end the trial before the end of the restart window, which begins with the first CONFIRM of the session. Without
        // this time limit, a device that always returns on trial could keep the session running for a long time.
        if memory.hasEndedTrial, let windowEnd, now >= windowEnd {
            throw UpdateError(.didNotReturn, "the device answers, and is still on trial when the time limit has passed")
        }
        guard memory.confirms < Self.mostConfirms else {
            throw UpdateError(.protocolViolation, "the device accepts CONFIRM and stays on trial")
        }
        return .confirm
    }

    // MARK: UpdateTask.confirm and UpdateTask.discard

    private func confirmStep() throws(UpdateError) -> Step {
        if device.state == .trial { return try confirmation() }
        guard memory.hasEndedTrial else {
            throw UpdateError(.notInTrial, "version \(device.version) is not on trial")
        }
        guard device.version == memory.first?.version, device.info.running == memory.first?.info.running else {
            throw UpdateError(.rolledBack, "the device runs version \(device.version) again")
        }
        return .finish(.confirmed, device.description, last: .confirmed(version: device.version.text))
    }

    private func discardStep() throws(UpdateError) -> Step {
        if device.state == .trial {
            guard let windowEnd, now > windowEnd else { return .discard }
            throw UpdateError(.didNotReturn, "the device accepts DISCARD and stays on trial")
        }
        guard memory.hasEndedTrial else { return .discard }
        var description = device.description
        if device.version != memory.first?.version { description.previousVersion = memory.first?.version.text }
        return .finish(.done, description)
    }

    // MARK: A restarted device with a new address

    /// True if the device restarts, and its trial will show that it is the same device.
    ///
    /// Info has no serial number. So only the trial identifies the device: the push has put this image on trial, and another device of the
    /// same product normally does not run it on trial. After a permanent APPLY there is no trial, and the device is not recognized.
    var recognizesCandidates: Bool {
        guard let options, options.ending != .permanent else { return false }
        return switch memory.apply {
        case .unanswered, .answered: true
        case .none, .asked: false
        }
    }

    /// Returns the difference between a candidate and the device; nil: the candidate is the device.
    func difference(of candidate: DeviceSnapshot) -> String? {
        guard case .push(let bundle, let options) = task, let before = memory.previous ?? memory.first else {
            return "is unknown"
        }
        let info = candidate.info
        if info.product != before.info.product { return "is the product \(info.product)" }
        if info.hardware != before.info.hardware { return "has the hardware revision \(info.hardware)" }
        guard candidate.state == .trial else { return "runs version \(candidate.version), which is not on trial" }
        guard Preflight(bundle: bundle, options: options).runs(on: candidate) else {
            return "has another image on trial, version \(candidate.version)"
        }
        // During a trial, a device reports the security counter of its old image.
        if info.securityCounter != before.info.securityCounter {
            return "has the security counter \(info.securityCounter)"
        }
        if info.running == nil, before.info.running != nil { return "does not report the digest of its image" }
        return nil
    }
}
