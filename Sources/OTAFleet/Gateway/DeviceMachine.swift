public import OTAFirmware

/// How a push ended.
public enum PushEnd: Sendable, Hashable {
    /// The device runs the image, confirmed. It may have run the image before.
    case updated
    /// No result, for example `link-lost` or `device-busy`. Another attempt can help.
    case retry(Reason)
    /// The device or otaflash refused the image. Another attempt does not help.
    case refused(Reason)
    /// The image may be the reason: `rolled-back`, `did-not-return`, or a failure of the device during the push.
    case failed(Reason)
}

/// One device as one gateway sees it: takes the lease, shows that the gateway is alive, and writes the result.
///
/// The machine has no clock, no store and no radio. The caller passes events and performs the returned actions. It performs the actions in
/// their order. At most one write is under way at a time.
public struct DeviceMachine: Sendable {
    public enum Action: Sendable, Hashable {
        /// Read the record, and pass the answer to `readBack(_:revision:at:)`, or call `readFailed(at:)`.
        case read
        /// Write the record by compare-and-set, and pass the result to `wrote(_:at:)`.
        case write(DeviceRecord, expecting: UInt64)
        /// Push the bundle of the wish, and pass its progress and its end to the machine. The operator may have aborted the rollout since
        /// `start(_:at:)`, so ask `WishList.mustInterrupt(_:)` again.
        case push(Wish)
        /// Interrupt the push. Its end is still passed to the machine.
        case interrupt
        /// The attempt is over, and the gateway's slot is free. `stored`: the record has the result. Otherwise another process has the
        /// lease, and its result counts.
        case ended(PushEnd?, stored: Bool)
    }

    public enum WriteResult: Sendable, Hashable {
        case written(revision: UInt64)
        /// The record has another revision.
        case conflict
        /// The write may be stored or not, for example after a timeout.
        case unknown
    }

    /// When a push can start.
    public enum Readiness: Sendable, Hashable {
        case now
        /// Not before this time. The readiness can change before.
        case at(Duration)
        /// Not before another event.
        case no
    }

    /// The time after which an unclear write is read back again.
    private static let retryTime = Duration.seconds(2)
    /// The caller calls `tick(at:)` at least after this time. During a trial, a longer time without an event is a pause of this process.
    private static let longestTick = Duration.seconds(5)
    /// After pauses of this total time, the end of a trial proves nothing about the image.
    private static let acceptedPause = Duration.seconds(5)

    public let holder: Holder
    /// The last known record. It is the record of an idle device if the store has no record.
    public private(set) var record: DeviceRecord
    /// The revision of `record`; 0 if the store has no record.
    public private(set) var revision: UInt64 = 0
    private var watch: LeaseWatch?
    private var isHeard = false
    /// The pause before the lease, and the rollout and time of its start.
    private var delay = Duration.zero
    private var candidate: (rollout: RolloutName, since: Duration)?
    private var job: Job?
    private var pending: Pending?
    private var lastEvent = Duration.zero

    private struct Job: Sendable {
        let wish: Wish
        /// Nil until the store has acknowledged the lease.
        var lease: Lease?
        var isPushing = false
        var phase = DeviceRecord.Phase.connect
        var offset: Int?
        var total: Int?
        /// Whether the record does not have the phase yet.
        var hasNews = false
        var interruption: Reason?
        var end: PushEnd?
        /// Whether another process has the lease.
        var isLost = false
        /// Whether this attempt transferred, so that its own APPLY started the trial.
        var hasTransferred = false
        /// How long this process was paused during the trial.
        var paused = Duration.zero
    }

    private struct Pending: Sendable {
        let record: DeviceRecord
        let sent: Duration
        /// When the record is read because the result of the write is not known; nil while the write or the read is under way.
        var readTime: Duration?
    }

    public init(device: DeviceID, holder: Holder) {
        self.holder = holder
        record = DeviceRecord(device: device)
    }

    /// Whether an attempt of this gateway is under way, from the write of the lease to the write of the result.
    public var isBusy: Bool { job != nil }
    /// Whether the push is under way.
    public var isPushing: Bool { job?.isPushing ?? false }

    /// The time at which `tick(at:)` must be called next; nil if no call is needed.
    public var deadline: Duration? {
        var times: [Duration] = []
        if let time = pending?.readTime { times.append(time) }
        if let job, let lease = job.lease, job.isPushing {
            times.append(lastEvent + Self.longestTick)
            if pending == nil, !job.isLost { times.append(lease.nextBeat) }
            if job.phase != .trial, job.interruption == nil { times.append(lease.stopTime) }
        }
        return times.min()
    }

    // MARK: - Start

    /// Records that the gateway hears the device.
    ///
    /// - Parameter delay: the time before this gateway may take the lease (``Contention``).
    public mutating func hear(product: ProductName?, version: SemanticVersion?, delay: Duration) {
        record.product = product ?? record.product
        record.version = version ?? record.version
        isHeard = true
        self.delay = delay
    }

    /// Records that the gateway does not hear the device any more.
    public mutating func lose() {
        isHeard = false
        candidate = nil
    }

    /// Returns when the gateway can start an attempt, or can end the attempt of a gateway that is gone.
    ///
    /// - Parameter wish: the result of `WishList.wish(for:at:refusals:)` for `record`.
    public mutating func readiness(for wish: Wish?, at moment: Moment) -> Readiness {
        if candidate?.rollout != wish?.rollout.value.name {
            candidate = wish.map { ($0.rollout.value.name, moment.now) }
        }
        guard job == nil, pending == nil, let watch, isHeard else { return .no }
        let time: Duration
        switch record.state {
        case .held: return .no
        // Another life of this gateway has ended, because the gateway locks its state folder. The own life without a job: a write that
        // counted as failed arrived late.
        case .running where record.holder?.gateway == holder.gateway: time = .zero
        case .running: time = watch.takeoverTime + delay
        case .idle, .done, .givenUp, .waiting:
            guard let wish, let candidate else { return .no }
            time = candidate.since + delay
            guard record.state == .waiting, record.rollout == wish.rollout.value.name else { break }
            guard hasAttempt(for: wish) else { return .no }
            let retry = watch.time(after: record.retryAfter ?? 0) + delay
            return max(time, retry) <= moment.now ? .now : .at(max(time, retry))
        }
        return time <= moment.now ? .now : .at(time)
    }

    private func hasAttempt(for wish: Wish) -> Bool { record.attempt < wish.rollout.value.attempts }

    /// Starts an attempt: takes the lease. Call this only if `readiness(for:at:)` is `now`, and the gateway has a free slot.
    public mutating func start(_ wish: Wish?, at moment: Moment) -> [Action] {
        guard readiness(for: wish, at: moment) == .now else { return [] }
        lastEvent = moment.now
        let isTakeover = record.state == .running
        // A device on trial is confirmed in every case, so the number of attempts does not count.
        guard let wish, !isTakeover || hasAttempt(for: wish) || record.phase == .trial else {
            return send(.abandon(isLast: wish != nil), at: moment)
        }
        let (name, created) = (wish.rollout.value.name, wish.rollout.value.created)
        job = Job(wish: wish)
        return send(
            isTakeover
                ? .takeOver(rollout: name, created: created, holder: holder)
                : .lease(rollout: name, created: created, holder: holder), at: moment)
    }

    // MARK: - Store

    /// Records the record of the store, from a watch. A watch may repeat or lag.
    public mutating func observe(_ stored: DeviceRecord?, revision: UInt64, at moment: Moment) -> [Action] {
        note(moment)
        guard revision >= self.revision || watch == nil else { return [] }
        // The result of the own write decides.
        guard pending == nil else { return [] }
        adopt(stored, revision, at: moment)
        return proceed(at: moment)
    }

    /// Records the answer to the action `read`.
    public mutating func readBack(_ stored: DeviceRecord?, revision: UInt64, at moment: Moment) -> [Action] {
        note(moment)
        guard let pending else {
            adopt(stored, revision, at: moment)
            return proceed(at: moment)
        }
        if let stored, stored.isSameWrite(as: pending.record) {
            return acknowledged(stored, revision, pending, at: moment)
        }
        self.pending = nil
        // Without a lease, the write of the lease failed. Otherwise the newest state must be written again.
        if job?.lease == nil { job?.isLost = true }
        job?.hasNews = true
        adopt(stored, revision, at: moment)
        return proceed(at: moment)
    }

    /// Records that the read failed. The machine reads again later.
    public mutating func readFailed(at moment: Moment) {
        note(moment)
        pending?.readTime = moment.now + Self.retryTime
    }

    /// Records the result of a write.
    public mutating func wrote(_ result: WriteResult, at moment: Moment) -> [Action] {
        note(moment)
        guard let pending else { return [] }
        switch result {
        case .written(let revision): return acknowledged(pending.record, revision, pending, at: moment)
        // A conflict may be the machine's own write, whose acknowledgement was lost. So the record decides, not the result.
        case .conflict: return [.read]
        case .unknown:
            self.pending?.readTime = moment.now + Self.retryTime
            return []
        }
    }

    private mutating func acknowledged(
        _ stored: DeviceRecord, _ revision: UInt64, _ write: Pending, at moment: Moment
    ) -> [Action] {
        adopt(stored, revision, at: moment)
        pending = nil
        guard job != nil else { return [] }
        guard stored.state == .running else { return finish(stored: true) }
        if job?.lease != nil {
            job?.lease?.acknowledge(sent: write.sent)
            return proceed(at: moment)
        }
        let lease = Lease(sent: write.sent)
        job?.lease = lease
        guard let wish = job?.wish, moment.now < lease.stopTime, job?.interruption == nil else {
            let reason = job?.interruption ?? .leaseLost
            job?.end = .retry(reason)
            return proceed(at: moment)
        }
        job?.isPushing = true
        return [.push(wish)]
    }

    private mutating func adopt(_ stored: DeviceRecord?, _ revision: UInt64, at moment: Moment) {
        let (product, version) = (record.product, record.version)
        // Another process has ended the attempt, or the store has lost the record.
        if job?.lease != nil, pending == nil, stored?.state != .running || stored?.isSameAttempt(as: record) != true {
            job?.isLost = true
        }
        record = stored ?? DeviceRecord(device: record.device)
        // What this gateway read from the device is newer than the record, except after the end of an update.
        if record.state != .done { record.version = version ?? record.version }
        record.product = product ?? record.product
        self.revision = revision
        if watch == nil { watch = LeaseWatch(revision: revision, at: moment.now) }
        watch?.see(revision: revision, at: moment.now)
    }

    private mutating func send(_ change: DeviceChange, at moment: Moment) -> [Action] {
        guard let next = try? record.changed(change, at: moment.wall) else {
            guard job != nil else { return [] }
            job?.isLost = true
            return proceed(at: moment)
        }
        pending = Pending(record: next, sent: moment.now)
        return [.write(next, expecting: revision)]
    }

    private mutating func finish(stored: Bool) -> [Action] {
        let end = job?.end
        job = nil
        return [.ended(end, stored: stored)]
    }

    // MARK: - Push

    /// Records the progress of the push: its phase, and the received and all bytes of the image.
    ///
    /// A push that transfers reports the phase `transfer` first, also if no byte is missing. A push that finds the device on trial reports
    /// only `trial`.
    public mutating func progress(
        _ phase: DeviceRecord.Phase, offset: Int?, total: Int?, at moment: Moment
    ) -> [Action] {
        note(moment)
        guard job?.isPushing == true else { return [] }
        if phase == .transfer { job?.hasTransferred = true }
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
        if case .failed(let reason) = end, reason == .rolledBack || reason == .didNotReturn, !watchedWholeTrial {
            job?.end = .retry(.trialUnattended)
        }
        if case .retry = end, let reason = job?.interruption { job?.end = .retry(reason) }
        return proceed(at: moment)
    }

    /// Whether this gateway saw the trial from its start, without a pause. Otherwise the trial may have ended because nothing confirmed the
    /// image in time, and this proves nothing about the image.
    private var watchedWholeTrial: Bool {
        guard let job else { return false }
        return job.hasTransferred && job.paused < Self.acceptedPause
    }

    /// Interrupts the attempt if the image is not marked for boot yet. Later the push continues, because its
    /// confirmation is right in every case.
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

    /// Notices a pause of this process. After a pause in a trial, the device may have rolled back only because nothing confirmed it.
    private mutating func note(_ moment: Moment) {
        let gap = moment.now - lastEvent - Self.longestTick
        if job?.isPushing == true, job?.phase == .trial, gap > .zero { job?.paused += gap }
        lastEvent = moment.now
    }

    /// Writes what the record does not have yet.
    private mutating func proceed(at moment: Moment) -> [Action] {
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
        case .updated: .finish(version: job.wish.release.value.version, by: holder)
        case .refused(let reason), .failed(let reason): .giveUp(reason, by: holder)
        case .retry(let reason):
            hasAttempt(for: job.wish)
                ? .wait(reason, after: DeviceRecord.pause(afterAttempt: record.attempt), by: holder)
                : .giveUp(reason, by: holder)
        }
    }
}
