/// Controls one rollout: starts the next stage, halts the rollout, and completes it.
///
/// The machine has no clock, no store and no key. The caller passes the records, signs the returned progress with the controller's key, and
/// writes it by compare-and-set. Except for times, two controllers compute the same progress from the same records. A new leader does not
/// know the times that the old leader measured, so each measurement begins again at 0. A change of the leader can therefore only delay the
/// next stage or the completion.
public struct StageMachine: Sendable {
    /// The progress is written again after this time, even if it has not changed. The reason is that a gateway starts no push if it has
    /// seen no new progress for 10 minutes.
    private static let rewriteTime = Duration.seconds(60)
    /// The minimum time between two writes of the progress if only its counts have changed.
    private static let countTime = Duration.seconds(10)
    /// The rollout is complete if two conditions hold in its last stage for this time: at least one device has ended, and no device of any
    /// stage is running or waiting.
    private static let completionTime = Duration.seconds(86400)

    public private(set) var rollout: Verified<Rollout>
    /// The newest progress that this machine knows.
    public private(set) var progress: RolloutProgress
    /// The counts of the last step. They can be newer than the counts of the progress, which is written less often.
    public private(set) var counts = RolloutProgress.Counts()
    /// The devices in the last step that are not enrolled.
    public private(set) var notEnrolled = RolloutProgress.Counts()
    /// The serial number of the next progress.
    private var nextSerial: Int
    private var isStored: Bool
    private var written: Duration?
    /// The time from which the conditions for the next stage have been true, on the clock of this controller. Nil if they were false at the
    /// last check, or if the rollout was paused or halted.
    private var soaking: Duration?
    /// The same for the conditions of the completion in the last stage.
    private var finished: Duration?

    /// - Parameters:
    ///   - progress: the stored progress; nil if the rollout has no progress yet.
    ///   - memory: the highest accepted serial numbers. The next progress has a higher serial, even if the store has lost records.
    public init(_ rollout: Verified<Rollout>, progress: Verified<RolloutProgress>?, memory: SerialMemory) {
        self.rollout = rollout
        let seen = memory.progressSerial(of: rollout.value.name)
        self.progress =
            progress?.value
            ?? RolloutProgress(rollout: rollout.value.name, serial: 0, rolloutSerial: rollout.value.serial)
        isStored = progress != nil
        nextSerial = max(seen, progress?.value.serial ?? 0) + 1
    }

    /// Records a newer version of the rollout. An older version is ignored.
    public mutating func update(_ rollout: Verified<Rollout>) {
        guard rollout.value.name == progress.rollout, rollout.value.serial > self.rollout.value.serial else { return }
        self.rollout = rollout
    }

    /// Records the progress that another controller wrote. Progress that is not newer is ignored.
    public mutating func observe(_ other: Verified<RolloutProgress>) {
        // A machine without progress knows only the serial number of the last progress.
        let oldest = isStored ? nextSerial : nextSerial - 1
        guard other.value.rollout == progress.rollout, other.value.serial >= oldest else { return }
        if other.value.stage != progress.stage || other.value.state != progress.state { restartTimes() }
        progress = other.value
        isStored = true
        nextSerial = other.value.serial + 1
    }

    /// Returns the progress to sign and to write; nil if nothing is due.
    ///
    /// The machine keeps its current progress until the caller reports with `wrote(_:at:)` that the store has acknowledged the new
    /// progress.
    ///
    /// - Parameters:
    ///   - damaged: the devices whose records cannot be read (``DeviceTotals``).
    ///   - list: the enrolled devices of the rollout.
    public mutating func step(
        _ records: some Sequence<DeviceRecord>, damaged: some Sequence<DeviceID> = [DeviceID](),
        in list: EnrolledDevices, at moment: Moment
    ) -> RolloutProgress? {
        let plan = rollout.value
        var next = progress
        next.rolloutSerial = max(plan.serial, progress.rolloutSerial)
        let totals = DeviceTotals(records, damaged: damaged, of: plan, in: list, stage: next.stage)
        next.counts = totals.all
        (counts, notEnrolled) = (totals.all, totals.notEnrolled)
        if next.state != .running, plan.state == .running, plan.serial > progress.rolloutSerial {
            // The operator has resumed a rollout that was halted or complete, and so accepts the failures until now.
            next.state = .running
            next.excused = RolloutProgress.Excused(
                ended: totals.all.ended, failed: totals.all.failed, stage: next.stage)
            restartTimes()
        } else if let excused = next.excused {
            // Held devices are not counted. If they had ended before the operator resumed, they must not hide as many later failures.
            next.excused = RolloutProgress.Excused(
                ended: min(excused.ended, totals.all.ended), failed: min(excused.failed, totals.all.failed),
                stage: excused.stage)
        }
        // A complete rollout also updates devices that a gateway finds later.
        if next.state != .halted {
            if shouldHalt(totals, next) {
                next.state = .halted
            } else if next.state == .complete {
                restartTimes()
            } else if plan.state == .running {
                advance(&next, totals, at: moment)
                // The devices of the new stage can already have failed, for example if the store has lost the progress.
                if next.stage > progress.stage,
                    shouldHalt(DeviceTotals(records, damaged: damaged, of: plan, in: list, stage: next.stage), next)
                {
                    next.state = .halted
                }
            } else {
                // The time in a pause is not soak time: the conditions were not checked during the pause.
                restartTimes()
            }
        }
        var sameCounts = next
        sameCounts.counts = progress.counts
        let age = written.map { moment.now - $0 } ?? Self.rewriteTime
        guard
            !isStored || sameCounts != progress || age >= Self.rewriteTime
                || next.counts != progress.counts && age >= Self.countTime
        else { return nil }
        next.serial = nextSerial
        next.at = moment.wall
        return next
    }

    /// Records that the store acknowledged the progress.
    public mutating func wrote(_ written: RolloutProgress, at moment: Moment) {
        if written.stage != progress.stage || written.state != progress.state { restartTimes() }
        progress = written
        isStored = true
        nextSerial = max(nextSerial, written.serial + 1)
        self.written = moment.now
    }

    private mutating func restartTimes() {
        soaking = nil
        finished = nil
    }

    /// - Parameter totals: the counts of the stage in `progress`.
    private func shouldHalt(_ totals: DeviceTotals, _ progress: RolloutProgress) -> Bool {
        let halt = rollout.value.halt
        func exceeds(ended: Int, failed: Int) -> Bool {
            ended >= halt.minimum && failed * 100 > halt.failedPercent * ended
        }
        // The current stage is also checked alone, because many updated devices of earlier stages could hide the failures of this stage.
        let isStageBad = exceeds(ended: totals.stage.ended, failed: totals.stage.failed)
        guard let excused = progress.excused else {
            return isStageBad || exceeds(ended: totals.all.ended, failed: totals.all.failed)
        }
        return isStageBad && progress.stage > excused.stage
            || exceeds(ended: totals.all.ended - excused.ended, failed: totals.all.failed - excused.failed)
    }

    private mutating func advance(_ next: inout RolloutProgress, _ totals: DeviceTotals, at moment: Moment) {
        let stages = rollout.value.stages
        guard next.stage < stages.count - 1 else {
            guard totals.all.ended > 0, totals.all.unfinished == 0 else {
                finished = nil
                return
            }
            let since = finished ?? moment.now
            finished = since
            if moment.now - since >= Self.completionTime { next.state = .complete }
            return
        }
        let stage = stages[max(0, next.stage)]
        let counts = totals.stage
        guard counts.ended >= stage.minimum, counts.done * 100 >= stage.successPercent * counts.ended else {
            soaking = nil
            return
        }
        let since = soaking ?? moment.now
        soaking = since
        if moment.now - since >= .seconds(stage.soakSeconds) { next.stage += 1 }
    }
}
