public import OTAFirmware

/// Controls the update of one device by one gateway: takes the lease, shows that the gateway is alive, and writes the result.
///
/// The machine has no clock, no store and no radio. The caller passes events, and performs the returned actions in the order of the list.
/// At most one write is under way at a time.
public struct DeviceMachine: Sendable {
    public enum Action: Sendable, Hashable {
        /// Read the record, and pass the answer to `readBack(_:revision:at:)`, or call `readFailed(at:)`.
        case read
        /// Write the record by compare-and-set, and pass the result to `wrote(_:at:)`.
        case write(DeviceRecord, expecting: UInt64)
        /// Push the bundle of the assignment, and pass the progress and the end of the push to the machine. The operator may have paused or
        /// aborted the rollout since `start(_:at:)`, so first call `AssignmentList.renewed(_:for:at:)`. If it returns nil, only pass the
        /// end of the push.
        case push(Assignment)
        /// Interrupt the push. The caller then also passes the end of the push to the machine.
        case interrupt
        /// The attempt is over, and the gateway can start another one. The end is nil if this gateway did not get the lease. `stored` is
        /// true if the record in the store contains the result. If `stored` is false, this gateway does not have the lease, and the result
        /// is discarded.
        case ended(PushEnd?, stored: Bool)
    }

    public enum WriteResult: Sendable, Hashable {
        case written(revision: UInt64)
        /// The record has another revision.
        case conflict
        /// It is unknown whether the write is stored, for example after a timeout.
        case unknown
    }

    /// When a push can start.
    public enum Readiness: Sendable, Hashable {
        case now
        /// The push can start at this time. An event before this time can change the readiness.
        case at(Duration)
        /// The push cannot start. Only an event can change this.
        case no
    }

    /// If the result of a write is unknown, the machine reads the record after this time.
    private static let retryTime = Duration.seconds(2)
    /// The maximum time between two events during a push. A longer time means that this process was paused, for example by a suspend.
    static let longestTick = Duration.seconds(5)
    /// If this process was paused for this total time or longer during a trial, a failed trial does not show that the image is bad.
    static let acceptedPause = Duration.seconds(5)

    public let holder: Holder
    private let earlierInstances: Set<GatewayInstance>
    /// The last known record. It is the record of an idle device if the store has no record.
    public private(set) var record: DeviceRecord
    /// The revision of `record`; 0 if the store has no record.
    public private(set) var revision: UInt64 = 0
    private var watch: LeaseWatch?
    private var isHeard = false
    /// The version that this gateway last read from the device; nil: not read.
    public private(set) var heardVersion: SemanticVersion?
    /// The product that this gateway last read from the device; nil: not read.
    private var heardProduct: ProductName?
    /// The waiting time of this gateway before it takes the lease (``Contention``).
    private var delay = Duration.zero
    /// The rollout of the current assignment, and the start of its waiting time; nil if there is no assignment.
    private var candidate: (rollout: RolloutName, since: Duration)?
    var job: Job?
    var pending: Pending?
    /// The newest record that the watch reported during the current write; nil if the watch reported no record.
    private var missed: (record: DeviceRecord?, revision: UInt64)?
    var lastEvent = Duration.zero

    struct Job: Sendable {
        let assignment: Assignment
        /// True if the device may be on trial with the image of the rollout: an earlier attempt or this attempt has marked the image for
        /// boot, and this attempt has not seen the end of the trial.
        var isOnTrial: Bool
        /// Nil until the store has acknowledged the lease.
        var lease: Lease?
        var isPushing = false
        var phase = DeviceRecord.Phase.connect
        var offset: Int?
        var total: Int?
        /// True if the machine must write its progress to the record without waiting for the time of the next beat.
        var hasNews = false
        var interruption: Reason?
        var end: PushEnd?
        /// True if this gateway lost the lease or did not get it.
        var isLost = false
        /// True if this attempt has reached the phase `transfer`, so that it started the trial that follows.
        var hasTransferred = false
        /// The sum of the pauses of this process during the trial.
        var paused = Duration.zero
    }

    struct Pending: Sendable {
        let record: DeviceRecord
        let sent: Duration
        /// The time of the next read that finds out the result of the write. Nil while the write or this read is under way.
        var readTime: Duration?
    }

    /// - Parameter earlierInstances: the identifiers of the earlier runs of the process with the same state folder.
    public init(device: DeviceID, holder: Holder, earlierInstances: Set<GatewayInstance>) {
        self.holder = holder
        self.earlierInstances = earlierInstances
        record = DeviceRecord(device: device)
    }

    /// True while an attempt of this gateway is under way. An attempt lasts from the write of the lease to the write of the result.
    public var isBusy: Bool { job != nil }
    /// True after the first record of the device was observed.
    public var hasRead: Bool { watch != nil }
    /// True if the device may be on trial, so that it must be confirmed even after an abort.
    public var isOnTrial: Bool { job?.isOnTrial ?? record.isOnTrial }
    /// True while the push of the attempt is under way.
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
    /// - Parameters:
    ///   - product: the product that the gateway read from the device; nil: not read, so the earlier value stays.
    ///   - version: the version of the running image; nil: not read, so the earlier value stays.
    ///   - delay: the time before this gateway may take the lease (``Contention``).
    public mutating func hear(product: ProductName?, version: SemanticVersion?, delay: Duration) {
        record.product = product ?? record.product
        record.version = version ?? record.version
        heardVersion = version ?? heardVersion
        heardProduct = product ?? heardProduct
        isHeard = true
        self.delay = delay
    }

    /// Records that the gateway does not hear the device any more.
    public mutating func lose() {
        isHeard = false
        candidate = nil
    }

    /// Returns when the gateway can start an attempt, or can end the attempt of a gateway that does not write any more.
    ///
    /// - Parameter assignment: the result of `AssignmentList.assignment(for:at:refusals:)` for `record`.
    public mutating func readiness(for assignment: Assignment?, at moment: Moment) -> Readiness {
        if candidate?.rollout != assignment?.rollout.value.name {
            candidate = assignment.map { ($0.rollout.value.name, moment.now) }
        }
        guard job == nil, pending == nil, let watch, isHeard else { return .no }
        let time: Duration
        switch record.state {
        case .held: return .no
        // A gateway locks its state folder, so the earlier processes with this folder have ended. The record can also be from this process,
        // because a write that seemed to be lost can arrive late. Another machine with the same name by mistake has other instances.
        case .running where record.holder.map(isOwn) == true: time = .zero
        case .running: time = watch.takeoverTime + delay
        case .idle, .done, .givenUp, .waiting:
            guard let assignment, let candidate else { return .no }
            // This gateway may receive a new rollout later than the record of a device that another gateway updates in it.
            let isUnsigned = assignment.last == .unsigned
            time = isUnsigned ? max(candidate.since, watch.takeoverTime) + delay : candidate.since + delay
            guard record.state == .waiting, record.rollout == assignment.rollout.value.name else { break }
            guard hasAttempt(for: assignment) else { return .no }
            let retry = watch.time(after: record.retryAfter ?? 0) + delay
            return max(time, retry) <= moment.now ? .now : .at(max(time, retry))
        }
        return time <= moment.now ? .now : .at(time)
    }

    private func isOwn(_ other: Holder) -> Bool {
        other.gateway == holder.gateway
            && (other.instance == holder.instance || earlierInstances.contains(other.instance))
    }

    /// Returns whether an attempt is left. An attempt that a gateway, the store or an operator ended does not count, but there are never
    /// more than ten times the number of attempts: the update of a device could end its gateway each time.
    ///
    /// A device on trial gets up to as many further attempts, because the last step of its update is only to confirm the image. Without any
    /// maximum, a device that does not return would never be finished.
    ///
    /// - Parameter isInterrupted: true if the last attempt was ended in this way, and the record does not show this yet.
    func hasAttempt(for assignment: Assignment, isInterrupted: Bool = false) -> Bool {
        let limit = assignment.rollout.value.attempts * (isOnTrial ? 2 : 1)
        let counted = record.attempt - record.interruptedAttempts - (isInterrupted ? 1 : 0)
        return counted < limit && record.attempt < limit * 10
    }

    /// Starts an attempt: takes the lease. If the holder is gone, and `assignment` is nil or no attempt is left, this method instead ends
    /// the holder's attempt. Call it only if `readiness(for:at:)` is `now`, and the gateway has fewer attempts under way than its maximum.
    public mutating func start(_ assignment: Assignment?, at moment: Moment) -> [Action] {
        guard readiness(for: assignment, at: moment) == .now else { return [] }
        lastEvent = moment.now
        let isTakeover = record.state == .running
        if let assignment { record = record.bounded(by: assignment.last, heard: heardVersion ?? record.version) }
        guard let assignment, !isTakeover || hasAttempt(for: assignment, isInterrupted: true) else {
            return send(.abandon(isLast: assignment != nil), at: moment)
        }
        let (name, created) = (assignment.rollout.value.name, assignment.rollout.value.created)
        job = Job(assignment: assignment, isOnTrial: record.isOnTrial && record.rollout == name)
        return send(
            isTakeover
                ? .takeOver(rollout: name, created: created, holder: holder)
                : .lease(rollout: name, created: created, holder: holder), at: moment)
    }

    // MARK: - Store

    /// Records the device's record that a watch of the store has reported, or that the caller has read without the action `read`. A watch
    /// may report a record late or several times.
    ///
    /// - Parameter afterLoss: true if the store may have lost its newest records, so that an older record counts.
    public mutating func observe(
        _ stored: DeviceRecord?, revision: UInt64, afterLoss: Bool = false, at moment: Moment
    ) -> [Action] {
        note(moment)
        // While a write is under way, the machine waits for the result of the write, because the record can be older than the write.
        guard pending == nil else {
            if revision > missed?.revision ?? self.revision { missed = (stored, revision) }
            return []
        }
        guard revision >= self.revision || watch == nil || afterLoss && job == nil else { return [] }
        adopt(stored, revision, at: moment)
        return proceed(at: moment)
    }

    /// Records the answer to the action `read`.
    public mutating func readBack(_ stored: DeviceRecord?, revision: UInt64, at moment: Moment) -> [Action] {
        guard let pending else { return observe(stored, revision: revision, at: moment) }
        note(moment)
        if let stored, stored.isSameWrite(as: pending.record) {
            return acknowledged(stored, revision, pending, at: moment)
        }
        // The pending write is not in the store. If this attempt has no lease yet, the pending write was the request for the lease, so the
        // attempt ends. If the attempt has a lease, the machine writes its newest progress or its result again.
        if job?.lease == nil { job?.isLost = true }
        job?.hasNews = true
        settle(stored, revision, isOwn: false, at: moment)
        return proceed(at: moment)
    }

    /// Records that the answer to the action `read` is not a valid record. The attempt ends, and its place becomes free.
    public mutating func readDamaged(at moment: Moment) -> [Action] {
        note(moment)
        (pending, missed) = (nil, nil)
        job?.isLost = true
        return proceed(at: moment)
    }

    /// Records that the read failed. If the result of a write is still unknown, the machine reads again after 2 s.
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
        // The machine's own write can be in the store even after a conflict, because an earlier acknowledgement can be lost. So the machine
        // reads the record to find out whether it contains this write.
        case .conflict: return [.read]
        case .unknown:
            self.pending?.readTime = moment.now + Self.retryTime
            return []
        }
    }

    private mutating func acknowledged(
        _ stored: DeviceRecord, _ revision: UInt64, _ write: Pending, at moment: Moment
    ) -> [Action] {
        let isFirst = job?.lease == nil
        if isFirst { job?.lease = Lease(sent: write.sent) } else { job?.lease?.acknowledge(sent: write.sent) }
        settle(stored, revision, isOwn: true, at: moment)
        guard let job else { return [] }
        guard stored.state == .running else { return finish(stored: true) }
        guard isFirst, !job.isLost, let lease = job.lease else { return proceed(at: moment) }
        guard moment.now < lease.stopTime, job.interruption == nil else {
            self.job?.end = .retry(job.interruption ?? .leaseLost)
            return proceed(at: moment)
        }
        self.job?.isPushing = true
        return [.push(job.assignment)]
    }

    /// Adopts the record that ends the wait for the pending write, and then a newer record of another writer, such as an operator.
    private mutating func settle(_ stored: DeviceRecord?, _ revision: UInt64, isOwn: Bool, at moment: Moment) {
        pending = nil
        // The store has lost its newest records, and with them the missed one.
        if !isOwn, revision < self.revision { missed = nil }
        adopt(stored, revision, isOwn: isOwn, at: moment)
        if let missed, missed.revision > revision { adopt(missed.record, missed.revision, at: moment) }
        missed = nil
    }

    /// - Parameter isOwn: true if this machine wrote the record. If another record of another attempt is in the store, another process has
    ///   ended or taken over the attempt. If there is no record, the store has lost it.
    private mutating func adopt(
        _ stored: DeviceRecord?, _ revision: UInt64, isOwn: Bool = false, at moment: Moment
    ) {
        let version = record.version
        if job?.lease != nil, !isOwn, stored?.state != .running || stored?.isSameAttempt(as: record) != true {
            job?.isLost = true
        }
        record = stored ?? DeviceRecord(device: record.device)
        // This gateway read the product and the version from the device after the record was written, so they replace those in the record.
        // Exception: in the state `done`, the version in the record was written after the update.
        if record.state != .done { record.version = version ?? record.version }
        record.product = heardProduct ?? record.product
        self.revision = revision
        if watch == nil { watch = LeaseWatch(revision: revision, at: moment.now) }
        watch?.see(revision: revision, at: moment.now)
    }

    mutating func send(_ change: DeviceChange, at moment: Moment) -> [Action] {
        guard let next = try? record.changed(change, at: moment.wall) else {
            guard job != nil else { return [] }
            job?.isLost = true
            return proceed(at: moment)
        }
        pending = Pending(record: next, sent: moment.now)
        return [.write(next, expecting: revision)]
    }

    mutating func finish(stored: Bool) -> [Action] {
        let end = job?.end
        job = nil
        return [.ended(end, stored: stored)]
    }
}
