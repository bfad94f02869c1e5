import OTAUpdate

/// Connecting, and what becomes of a broken link.
extension SMPSession {
    /// A transport gives scanning, connecting and discovering 10 s each; this stands behind one that does not.
    private static let connectLimit = Duration.seconds(35)
    private static let subscribeLimit = Duration.seconds(10)
    private static let closeLimit = Duration.seconds(10)
    /// SMP does not report how long a restart takes. A bootloader swaps one megabyte in this time.
    private static let restartTime = Duration.seconds(60)

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
        device.longestValue = max(device.longestValue, valueLength)
        guard properties.channels.contains(SMPChannel.value) else {
            return fail(UpdateError(.unsupportedDevice, "the device does not offer SMP, MCUmgr's protocol"))
        }
        assembler = SMPFrameAssembler()
        list = nil
        questions = []
        isSurveying = false
        stage = .subscribing(due: now + Self.subscribeLimit)
        actions.append(.link(.subscribe(SMPChannel.value)))
    }

    mutating func subscribed() {
        guard case .subscribing = stage else { return }
        if first == nil { questions = firstQuestions }
        askNext()
    }

    mutating func refused(_ error: LinkError) {
        if error.code == .notPermitted { return fail(UpdateError(.notPermitted, error.detail)) }
        breakLink(LinkError(.lost, "the device refused a request: \(error.detail)"))
    }

    /// Ends a link that is of no more use; what follows is as after a lost one.
    mutating func breakLink(_ reason: LinkError) { close(.broken(reason)) }

    mutating func close(_ reason: Closing) {
        stage = .closing(due: now + Self.closeLimit, reason: reason)
        actions.append(.disconnect)
    }

    mutating func linkDown(_ error: LinkError) {
        exchanges = []
        probe = nil
        upload = nil
        if restart == .asked { restart = .under(since: now) }
        switch stage {
        case .unstarted, .pausing(_, .connect), .over: break
        case .connecting: tryAgain(after: error, giveUpWith: .linkLost)
        case .closing(_, .restart): pauseForRestart()
        case .closing(_, .fresh): stage = .pausing(until: now + RetryPolicy.shortestWait, then: .connect)
        case .closing(_, .broken(let reason)): lost(reason)
        case .subscribing, .exchanging, .pausing(_, .ask), .pausing(_, .upload), .pausing(_, .probe): lost(error)
        }
    }

    private mutating func lost(_ error: LinkError) {
        push?.transfer.disconnects += 1
        report(.linkLost(error))
        if let lookUntil {
            self.lookUntil = retry.lost(at: now, lookingUntil: lookUntil, restart: Self.restartTime)
        }
        tryAgain(after: error, giveUpWith: error.code == .timedOut ? .noAnswer : .linkLost)
    }

    private mutating func tryAgain(after error: LinkError, giveUpWith code: UpdateError.Code) {
        // A datagram's link is there before anybody is.
        if first == nil, let final = error.finalAtFirst { return fail(UpdateError(final, error.detail)) }
        // Where the restart or the confirmation went out and no answer came, the same look decides.
        if let lookUntil {
            guard now < lookUntil else {
                return fail(UpdateError(.didNotReturn, "the device did not come back after its restart"))
            }
            return pauseForRestart()
        }
        guard let wait = retry.failed(random: &random) else {
            return fail(UpdateError(wasConnected ? code : .noSuchDevice, error.detail))
        }
        stage = .pausing(until: now + wait, then: .connect)
    }

    private mutating func pauseForRestart() {
        stage = .pausing(until: now + retry.failedWithinTime(random: &random), then: .connect)
    }
}
