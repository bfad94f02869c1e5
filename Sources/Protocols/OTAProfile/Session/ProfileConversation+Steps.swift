import OTAFirmware
import OTASigning
import OTAUpdate

/// The requests, their answers, and the steps of ``ProfilePlan``.
extension ProfileConversation {
    /// Performs a step.
    mutating func perform(_ step: ProfilePlan.Step) {
        guard let snapshot else { return }
        switch step {
        case .sendEnvelope(let warning):
            if memory.previous == nil {
                if let warning { report(warning) }
                memory.previous = snapshot
                enter(.sending)
                report(.phase(.envelope))
            }
            prepareEncoding(snapshot)
            beginEnvelope()
        case .sendImage: beginImage(on: snapshot)
        case .apply(let permanent):
            progressed()
            enter(.marked)
            report(.phase(.apply))
            memory.apply = .asked
            shared.restartDeadline = shared.now + snapshot.longestReturn
            ask(.apply(permanent: permanent))
        case .awaitRestart(let isNew):
            if memory.apply == .asked {
                memory.apply = .answered(at: shared.now)
                shared.restartDeadline = shared.now + snapshot.longestReturn
            }
            reconnect(.afterRestart(reportsPhase: isNew))
        case .confirm: confirm(snapshot)
        case .discard: discard(snapshot)
        case .identify(let seconds): ask(.identify(seconds: seconds))
        case .survey: begin()
        case .startOver:
            memory.appliedAgain += 1
            memory.apply = .none
            shared.restartDeadline = nil
            enter(.sending)
            if let plan { perform(plan.step) }
        case .dryRun(let update, let warning):
            if let warning { report(warning) }
            if update.resumeFrom == 0, upload?.options.resume == .expected { report(.nothingToResume) }
            planEncoding(update, snapshot)
        case .finish(let outcome, let device, let last):
            if let last { report(last) }
            finish(outcome, device)
        case .fail(let error): fail(error)
        }
    }

    private mutating func confirm(_ snapshot: DeviceSnapshot) {
        // The trial shows that the device performed APPLY, even if no answer arrived in this session. If the old version runs later,
        // the device has rolled back.
        memory.apply = .answered(at: shared.now)
        memory.confirms += 1
        enter(.confirming)
        report(.phase(.confirm))
        if !memory.hasEndedTrial {
            // If the link is lost before the answer, the session tries to reconnect until this time.
            shared.restartDeadline = shared.now + snapshot.longestReturn
        }
        memory.hasEndedTrial = true
        ask(.confirm)
    }

    private mutating func discard(_ snapshot: DeviceSnapshot) {
        enter(.sending)
        if snapshot.state == .trial {
            memory.hasEndedTrial = true
            shared.restartDeadline = shared.restartDeadline ?? shared.now + snapshot.longestReturn
        } else if let held = snapshot.description.held {
            // Record the partial upload now. If the answer to DISCARD is lost, the device's next status no longer lists the partial upload.
            discarded = held
        }
        ask(.discard)
    }

    // MARK: Requests and answers

    mutating func ask(_ request: Request, busyEnd: Duration? = nil) {
        state = .asking(exchange(request, busyEnd: busyEnd))
    }

    /// Sends a request.
    mutating func exchange(_ request: Request, busyEnd: Duration? = nil) -> Exchange {
        let tag = shared.nextNumber()
        submit(.write(request.bytes(tag: tag), ProfileChannel.control))
        return Exchange(
            request: request, tag: tag, due: shared.now + request.timeLimit, busyEnd: busyEnd ?? shared.busyEnd)
    }

    mutating func answered(_ exchange: Exchange, _ bytes: [UInt8]) {
        do throws(FrameError) {
            guard let answer = try ControlAnswer(to: exchange.request, tag: exchange.tag, parsing: bytes) else {
                return
            }
            switch answer.status {
            case .ok: accepted(exchange.request, answer.position)
            case .busy: busy(exchange)
            default: declined(exchange.request, answer.status)
            }
        } catch {
            fail(error)
        }
    }

    private mutating func busy(_ exchange: Exchange) {
        guard let again = nextAttempt(exchange.request.name, busyEnd: exchange.busyEnd) else { return }
        // The answer *busy* to a SYNC shows that another host now uses the device. This host needs a new link before it can continue
        // the transfer, so it does not repeat the SYNC.
        if case .sync = exchange.request {
            return reconnect(.afterLoss(LinkError(.lost, "the device is busy with another host")))
        }
        state = .pausing(exchange, due: again)
    }

    private mutating func accepted(_ request: Request, _ position: Position?) {
        switch (request, position) {
        case (.begin(let object, _, let from, _), let position?):
            if isPlausible(position, of: object, from: from) { start(object, at: position) }
        case (.beginEncoded(let from, _), let position?): beganEncoded(from: from, at: position)
        case (.sync, let position?): flushed(to: position)
        default: if let step = plan?.step(after: request) { perform(step) }
        }
    }

    private mutating func declined(_ request: Request, _ status: DeviceStatus) {
        let transfer: ObjectTransfer? = if case .sending(let transfer, _) = state { transfer } else { nil }
        switch (request, status) {
        case (.finish(.image), .digestMismatch): digestMismatched()
        case (.beginEncoded(let from, _), _): encodingRefused(from: from, status)
        // The device could not decode the encoded image. The answer to FINISH has the status *badState* if the device has received the
        // whole stream, but does not have the whole image. The answer to SYNC has the status *badState*, because the device has left the
        // state *image*. The profile does not permit *notDecoded* in this answer, but the host accepts it with the same meaning.
        case (.finish(.image), .badState) where upload?.isEncoded == true,
            (.sync, .badState) where transfer?.positions != nil && upload?.hasFlashFailed == false,
            (.sync, .notDecoded) where transfer?.positions != nil:
            notDecoded()
        // After a flash error, the device leaves the state *image*. It then answers a SYNC with one of these statuses.
        case (.sync, .badState), (.sync, .flashFailed):
            mismatched(transfer?.object ?? .image, as: .flashFailed, "the device's flash failed")
        case (.apply(permanent: true), .refusedByPolicy):
            fail(UpdateError(.trialAvailable, "the device refuses to install an image without a trial"))
        case (.identify, .unknownOpcode): fail(UpdateError(.unsupportedDevice, "the device cannot blink"))
        default:
            fail(UpdateError(status.error, "the device refused \(request.name): \(status.meaning)"))
        }
    }
}
