public import OTAFirmware

/// A change of a device's record. Each change is one write by compare-and-set.
public enum DeviceChange: Sendable, Hashable {
    /// Take the lease for a rollout, in the first or in a further attempt.
    case lease(rollout: RolloutName, created: Timestamp, holder: Holder)
    /// Take the lease from a holder that does not write any more (``LeaseWatch``).
    case takeOver(rollout: RolloutName, created: Timestamp, holder: Holder)
    /// End the attempt of a holder that does not write any more, and start no new attempt. `isLast` is true if no attempt is left.
    case abandon(isLast: Bool)
    /// Show that the holder is alive, with the progress of its push.
    case beat(DeviceRecord.Phase, offset: Int?, total: Int?, by: Holder)
    /// The device runs the image, and the image is confirmed.
    case finish(version: SemanticVersion?, by: Holder)
    /// The attempt ended without a result. The next attempt can start `after` seconds later, at most `DeviceRecord.longestWait`. `onTrial`
    /// is true if the device may be on trial with the image.
    case wait(Reason, after: Int, onTrial: Bool = false, by: Holder)
    /// The attempt ended, and no further attempt is made in this rollout.
    case giveUp(Reason, by: Holder)
    /// Exclude the device from all rollouts.
    case hold
    /// End the exclusion of the device.
    case unhold
    case group([GroupName])
}

extension DeviceRecord {
    /// Returns the record after a change.
    ///
    /// | from | change | to |
    /// |---|---|---|
    /// | `idle`, `waiting`; `done`, `given-up` of an older rollout | lease | `running` |
    /// | `running` | takeOver | `running` |
    /// | `running` | abandon; abandon the last attempt | `waiting`; `given-up` |
    /// | `running`, by the holder | beat; finish; wait; giveUp | `running`; `done`; `waiting`; `given-up` |
    /// | all but `running`, `held` | hold | `held` |
    /// | `held` | unhold | the state before `held` |
    /// | all | group | the same |
    ///
    /// - Throws: `stale-record` for every other combination, and for a lease or takeover that `mayFollow` does not permit.
    public func changed(_ change: DeviceChange, at wall: Timestamp?) throws(FleetError) -> DeviceRecord {
        var next = self
        next.since = since ?? wall
        next.at = wall
        switch change {
        case .lease(let rollout, let created, let holder):
            guard state != .running, state != .held, mayFollow(rollout, created) else { throw stale("lease") }
            next.startAttempt(of: rollout, created, by: holder)
        case .takeOver(let rollout, let created, let holder):
            guard state == .running, self.rollout == rollout || mayFollow(rollout, created) else {
                throw stale("takeover")
            }
            next.startAttempt(of: rollout, created, by: holder)
            if next.attempt > 1 { next.interruptedAttempts += 1 }
        case .abandon(let isLast):
            guard state == .running else { throw stale("abandon") }
            next.endAttempt(isLast ? .givenUp : .waiting, .holderGone, onTrial: !isLast && isOnTrial)
            next.interruptedAttempts += 1
        case .beat(let phase, let offset, let total, let holder):
            try expect(holder, "beat")
            // The phase `connect` does not replace `trial`, because a push that connects does not know yet whether the device is on trial.
            next.phase = self.phase == .trial && phase == .connect ? .trial : phase
            next.offset = offset ?? self.offset
            next.total = total ?? self.total
            next.beat = nextBeat
        case .finish(let version, let holder):
            try expect(holder, "finish")
            next.endAttempt(.done, nil)
            next.version = version ?? self.version
        case .wait(let reason, let seconds, let isOnTrial, let holder):
            try expect(holder, "wait")
            next.endAttempt(.waiting, reason, onTrial: isOnTrial)
            if reason.isInterruption { next.interruptedAttempts += 1 }
            next.retryAfter = max(0, min(seconds, Self.longestWait))
        case .giveUp(let reason, let holder):
            try expect(holder, "give-up")
            next.endAttempt(.givenUp, reason)
        case .hold:
            guard state != .running, state != .held else { throw stale("hold") }
            next.heldState = state
            next.state = .held
        case .unhold:
            guard state == .held else { throw stale("release") }
            let isResting = heldState != .running && heldState != .held
            next.state = isResting ? heldState ?? .idle : .idle
            next.heldState = nil
        case .group(let groups):
            next.groups = Set(groups).sorted()
        }
        return next
    }

    /// The longest pause before the next attempt, in seconds.
    public static let longestWait = 3600

    /// Returns the pause after an attempt, in seconds: 60 s, doubled with each attempt, at most 1 h.
    public static func pause(afterAttempt attempt: Int) -> Int { min(60 << min(max(attempt - 1, 0), 10), longestWait) }

    /// Returns true if a job of the given rollout may follow the job in the record. The new job can be the next attempt of the same
    /// rollout, or the first attempt of a newer rollout.
    ///
    /// Without this rule, two running rollouts could update a device in turn, again and again.
    public func mayFollow(_ rollout: RolloutName, _ created: Timestamp) -> Bool {
        guard let own = self.rollout, let ownCreated = rolloutCreated else { return true }
        if own == rollout { return state == .idle || state == .waiting }
        return (created, rollout) > (ownCreated, own)
    }

    private mutating func startAttempt(of rollout: RolloutName, _ created: Timestamp, by holder: Holder) {
        let isSame = self.rollout == rollout
        attempt = isSame ? attempt + 1 : 1
        if !isSame { interruptedAttempts = 0 }
        phase = isSame && isOnTrial ? .trial : .connect
        self.rollout = rollout
        rolloutCreated = created
        self.holder = holder
        state = .running
        beat = 1
        reason = nil
        retryAfter = nil
        offset = nil
        total = nil
    }

    private mutating func endAttempt(_ state: State, _ reason: Reason?, onTrial: Bool = false) {
        self.state = state
        self.reason = reason
        phase = onTrial ? .trial : nil
        beat = nextBeat
    }

    /// The number of the next write. After the highest valid number, it is 1: a foreign record must not make the next one invalid.
    private var nextBeat: Int { beat < Self.numberLimit - 1 ? beat + 1 : 1 }

    /// Removes the job from the record. The device stays `running` until its holder is gone, and `held` until an operator releases it.
    mutating func forgetJob() {
        if state == .held { heldState = .idle } else if state != .running { state = .idle }
        (rollout, rolloutCreated, attempt, interruptedAttempts) = (nil, nil, 0, 0)
        (phase, offset, total, reason, retryAfter) = (nil, nil, nil, nil, nil)
    }

    private func expect(_ holder: Holder, _ what: String) throws(FleetError) {
        guard state == .running, self.holder == holder else { throw stale(what) }
    }

    private func stale(_ what: String) -> FleetError {
        let place = holder.map { " by gateway \($0.gateway)" } ?? ""
        return FleetError(
            .staleRecord, "the change '\(what)' is not allowed: device \(device) is \(state.rawValue)\(place)",
            hint: "otaflash fleet devices")
    }
}
