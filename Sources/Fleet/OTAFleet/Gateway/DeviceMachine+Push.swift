/// The push of an attempt, and the writes that follow from it.
extension DeviceMachine {
    /// Records the progress of the push: its phase, the number of received bytes (`offset`), and the size of the image (`total`).
    ///
    /// Before the phase `trial`, a push reports the phase `transfer`, even if the device already has all bytes. Only a push that finds the
    /// device on trial reports `trial` without `transfer`.
    public mutating func progress(
        _ phase: DeviceRecord.Phase, offset: Int?, total: Int?, at moment: Moment
    ) -> [Action] {
        note(moment)
        guard job?.isPushing == true else { return [] }
        if phase == .transfer { job?.hasTransferred = true }
        if phase != .connect { job?.isOnTrial = phase == .trial }
        if job?.phase != phase {
            job?.phase = phase
            job?.hasNews = true
        }
        if let offset { job?.offset = offset }
        if let total { job?.total = total }
        return proceed(at: moment)
    }

    /// Records the end of the push.
    public mutating func end(_ end: PushEnd, at moment: Moment) -> [Action] {
        note(moment)
        guard job?.isPushing == true else { return [] }
        job?.isPushing = false
        job?.end = end
        if end == .failed(.rolledBack) || end == .retry(.notInTrial) { job?.isOnTrial = false }
        if case .failed(let reason) = end, reason == .rolledBack || reason == .didNotReturn, !watchedWholeTrial {
            job?.end = .retry(.trialUnattended)
        }
        if case .retry = end, let reason = job?.interruption { job?.end = .retry(reason) }
        return proceed(at: moment)
    }

    /// True if this gateway saw the whole trial, without a long pause of its process. If false, the trial may have failed only because no
    /// gateway confirmed the image in time. A failed trial then does not show that the image is bad.
    private var watchedWholeTrial: Bool {
        guard let job else { return false }
        return job.hasTransferred && job.paused < Self.acceptedPause
    }

    /// Interrupts the attempt if it is not in the phase `trial` yet. In the phase `trial`, the push continues, because an image on trial
    /// must be confirmed even after an abort or the loss of the lease.
    public mutating func stop(_ reason: Reason, at moment: Moment) -> [Action] {
        note(moment)
        guard let job, job.interruption == nil, job.phase != .trial, job.end == nil else { return [] }
        self.job?.interruption = reason
        return job.isPushing ? [.interrupt] : []
    }

    /// Performs what is due at this time. Call it at the time of `deadline`.
    public mutating func tick(at moment: Moment) -> [Action] {
        note(moment)
        var actions: [Action] = []
        if let job, let lease = job.lease, job.isPushing, moment.now >= lease.stopTime {
            actions += stop(.leaseLost, at: moment)
        }
        if let time = pending?.readTime, time <= moment.now {
            pending?.readTime = nil
            actions.append(.read)
        }
        return actions + proceed(at: moment)
    }

    /// Records the time of an event, and adds up the pauses of this process during a trial. After a long pause, the device may have rolled
    /// back only because no gateway confirmed the image.
    mutating func note(_ moment: Moment) {
        let gap = moment.now - lastEvent - Self.longestTick
        if job?.isPushing == true, job?.phase == .trial, gap > .zero { job?.paused += gap }
        lastEvent = moment.now
    }

    /// Returns the next action of the attempt if one is due: the write of a beat or of the result. If the lease is lost, the action
    /// interrupts the push (except in the phase `trial`), or ends the attempt after the push.
    mutating func proceed(at moment: Moment) -> [Action] {
        guard let job else { return [] }
        if job.isLost {
            guard job.isPushing else { return pending == nil ? finish(stored: false) : [] }
            return stop(.leaseLost, at: moment)
        }
        guard pending == nil, let lease = job.lease else { return [] }
        if !job.isPushing, let end = job.end { return send(result(of: end, job), at: moment) }
        guard job.hasNews || lease.nextBeat <= moment.now else { return [] }
        self.job?.hasNews = false
        self.job?.lease?.send(at: moment.now)
        return send(.beat(job.phase, offset: job.offset, total: job.total, by: holder), at: moment)
    }

    private func result(of end: PushEnd, _ job: Job) -> DeviceChange {
        switch end {
        case .updated: .finish(version: job.assignment.release.value.version, by: holder)
        case .refused(let reason), .failed(let reason): .giveUp(reason, by: holder)
        case .retry(let reason):
            hasAttempt(for: job.assignment, isInterrupted: reason.isInterruption)
                ? .wait(
                    reason,
                    after: DeviceRecord.pause(afterAttempt: max(1, record.attempt - record.interruptedAttempts)),
                    onTrial: job.isOnTrial, by: holder)
                : .giveUp(reason, by: holder)
        }
    }
}
