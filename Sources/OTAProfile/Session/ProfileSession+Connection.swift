import OTAFirmware
import OTAUpdate

/// Connects, reads the device's state, and reconnects after a lost link.
extension ProfileSession {
    /// A transport limits scanning, connecting and discovery to 10 s each. This limit covers a transport that does not.
    private static let connectLimit = Duration.seconds(35)
    private static let surveyLimit = Duration.seconds(10)
    private static let closeLimit = Duration.seconds(10)
    private static let longestRestart = Duration.seconds(180)

    mutating func connect() {
        if !wasConnected { report(.phase(.connect)) }
        stage = .connecting(due: now + Self.connectLimit)
        actions.append(.connect)
    }

    mutating func linkUp(_ properties: LinkProperties) {
        guard case .connecting = stage else { return }
        if wasConnected { report(.reconnected) }
        wasConnected = true
        link = properties
        survey()
    }

    /// Reads the device's information and state. A device without the required channels fails the session.
    mutating func survey() {
        snapshot = nil
        do throws(FrameError) {
            let survey = try Survey(of: link)
            stage = .surveying(survey, due: now + Self.surveyLimit)
            actions += survey.commands.map { .link($0) }
        } catch {
            fail(UpdateError(.unsupportedDevice, error.context))
        }
    }

    mutating func surveyed(_ event: LinkEvent) {
        guard case .surveying(var survey, let due) = stage else { return }
        do throws(FrameError) {
            switch event {
            case .subscribed(let channel): survey.subscribed(to: channel)
            case .value(let bytes, let channel): try survey.read(bytes, from: channel)
            default: break
            }
        } catch {
            return fail(error)
        }
        stage = .surveying(survey, due: due)
        guard let snapshot = survey.snapshot else { return }
        self.snapshot = snapshot
        if first == nil { first = snapshot }
        stage = .exchanging
        begin(snapshot)
    }

    mutating func refused(_ error: LinkError, _ channel: Channel) {
        if error.code == .notPermitted { return fail(UpdateError(.notPermitted, error.detail)) }
        breakLink(LinkError(.lost, "the device refused a request: \(error.detail)"))
    }

    /// Closes an unusable link. The session then continues as after a lost link.
    mutating func breakLink(_ reason: LinkError) {
        stage = .closing(due: now + Self.closeLimit, reason: .broken(reason))
        actions.append(.disconnect)
    }

    /// Disconnects, because the device restarts after the host disconnects. The session then reconnects.
    mutating func waitForRestart() {
        stage = .closing(due: now + Self.closeLimit, reason: .restart)
        actions.append(.disconnect)
    }

    mutating func linkDown(_ error: LinkError) {
        exchange = nil
        if let transfer, transfer.object == .image { push?.note(transfer) }
        transfer = nil
        if push?.apply == .asked { push?.apply = .unanswered(since: now) }
        switch stage {
        case .unstarted, .pausing(_, .connect), .over: break
        case .connecting: tryAgain(after: error)
        case .closing(_, .restart):
            report(.phase(.restart))
            pauseForRestart()
        case .closing(_, .broken(let reason)): lost(reason)
        case .surveying, .exchanging, .pausing(_, .ask): lost(error)
        }
    }

    private mutating func lost(_ error: LinkError) {
        push?.transfer.disconnects += 1
        report(.linkLost(error))
        if let lookUntil {
            self.lookUntil = retry.lost(at: now, lookingUntil: lookUntil, restart: restartTime)
        }
        tryAgain(after: error)
    }

    /// The restart time that the device reports, limited to `RetryPolicy.longestWait` … 180 s.
    private var restartTime: Duration {
        let reported = Duration.seconds((snapshot ?? first)?.info.restartSeconds ?? 0)
        return min(max(reported, RetryPolicy.longestWait), Self.longestRestart)
    }

    private mutating func tryAgain(after error: LinkError) {
        if !wasConnected, let final = error.finalAtFirst { return fail(UpdateError(final, error.detail)) }
        // This also covers APPLY or CONFIRM without an answer: the device's state after reconnecting decides.
        if let lookUntil {
            guard now < lookUntil else {
                return fail(UpdateError(.didNotReturn, "the device did not come back after its restart"))
            }
            return pauseForRestart()
        }
        guard let wait = retry.failed(random: &random) else {
            return fail(UpdateError(wasConnected ? .linkLost : .noSuchDevice, error.detail))
        }
        stage = .pausing(until: now + wait, then: .connect)
    }

    private mutating func pauseForRestart() {
        stage = .pausing(until: now + retry.failedWithinTime(random: &random), then: .connect)
    }
}
