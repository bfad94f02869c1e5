internal import OTAFirmware
internal import OTAFleet

/// Manages the lease of the leader for one controller. It takes the lease if no controller has it, and then writes a beat every 10 s.
///
/// This type has no clock and no store. The caller passes events and performs the returned action. At most one action is under way.
struct Leadership: Sendable {
    enum Action: Sendable, Hashable {
        /// Read the record, and pass the answer to `readBack(_:revision:at:)`, or call `readFailed(at:)`.
        case read
        /// Write the record by compare-and-set, and pass the outcome to `wrote(_:at:)`.
        case write(LeaderRecord, expecting: UInt64)
    }

    /// The pause before the next read after a failure, and before the next write after a conflict.
    private static let retryTime = Duration.seconds(2)

    private let controller: KeyID
    private let instance: GatewayInstance
    private let earlierInstances: Set<GatewayInstance>
    private var record: LeaderRecord?
    private var watch: LeaseWatch?
    private var lease: Lease?
    private var pending: (record: LeaderRecord, sent: Duration)?
    /// The time at which the record must be read; nil if no read is planned.
    private var readTime: Duration? = .zero
    private var isReading = false
    /// The time of the next write after a conflict; nil if the last write had no conflict.
    private var retry: Duration?

    /// - Parameter earlierInstances: the identifiers of the earlier runs of the process with the same state folder. They have ended.
    init(controller: KeyID, instance: GatewayInstance, earlierInstances: Set<GatewayInstance>) {
        self.controller = controller
        self.instance = instance
        self.earlierInstances = earlierInstances
    }

    /// Returns true if this controller leads at this time.
    func leads(at now: Duration) -> Bool { lease.map { now < $0.stopTime } ?? false }

    /// The time at which `tick(at:)` must be called; nil if no call is needed, for example while a write is under way.
    var deadline: Duration? {
        if let readTime { return readTime }
        guard let writeTime else { return nil }
        return lease.map { min(writeTime, $0.stopTime) } ?? writeTime
    }

    /// The time of the next write; nil if no write is possible now.
    private var writeTime: Duration? {
        guard pending == nil, !isReading, let watch else { return nil }
        if let lease { return retry ?? lease.nextBeat }
        let isFree =
            record.map { $0.controller == controller && earlierInstances.contains($0.instance) }
            ?? (watch.revision == 0)
        return max(retry ?? .zero, isFree ? .zero : watch.takeoverTime)
    }

    /// Records the leader's record that a watch has reported.
    ///
    /// A report with an older revision than the last known revision is late, or the store has lost its newest records. So the record is
    /// read, because only the answer to a read shows the present revision.
    ///
    /// - Parameter stored: nil if the store has no record, or if the record cannot be parsed.
    mutating func observe(_ stored: LeaderRecord?, revision: UInt64, at now: Duration) {
        guard revision < watch?.revision ?? 0 else { return adopt(stored, revision, at: now) }
        // If a write is under way, its result is a conflict, which also leads to a read.
        if pending == nil, !isReading { readTime = readTime ?? now }
    }

    /// Records the answer to the action `read`. The answer counts even if its revision is older than the last known revision.
    mutating func readBack(_ stored: LeaderRecord?, revision: UInt64, at now: Duration) {
        isReading = false
        adopt(stored, revision, at: now)
        pending = nil
    }

    mutating func readFailed(at now: Duration) {
        isReading = false
        readTime = now + Self.retryTime
    }

    mutating func wrote(_ result: DeviceMachine.WriteResult, at now: Duration) {
        guard let pending else { return }
        switch result {
        case .written(let revision):
            observe(pending.record, revision: revision, at: now)
            guard self.pending != nil else { return }
            // A later write of another controller was reported before this result.
            self.pending = nil
            readTime = now
        case .conflict:
            readTime = now
            // Without this pause, a store that returns other revisions than it expects would cause reads and writes without end.
            retry = now + Self.retryTime
        case .unknown: readTime = now + Self.retryTime
        }
    }

    private mutating func adopt(_ stored: LeaderRecord?, _ revision: UInt64, at now: Duration) {
        // A store that has lost its newest records uses their revisions again, so the beat is compared, too.
        let isSame =
            if let record, let stored { stored.isSameWrite(as: record) } else { record == nil && stored == nil }
        if watch?.revision != revision || !isSame { watch = LeaseWatch(revision: revision, at: now) }
        record = stored
        if let pending, let stored, stored.isSameWrite(as: pending.record) {
            acknowledge(pending.sent)
        } else if stored?.controller != controller || stored?.instance != instance {
            lease = nil
        }
    }

    /// Returns the action that is due now; nil if no action is due.
    mutating func tick(at now: Duration) -> Action? {
        if let readTime {
            guard readTime <= now else { return nil }
            self.readTime = nil
            isReading = true
            return .read
        }
        if let stop = lease?.stopTime, stop <= now { lease = nil }
        guard let watch, let writeTime, writeTime <= now else { return nil }
        let first = LeaderRecord(controller: controller, instance: instance)
        let next = lease == nil ? first : record?.nextBeat() ?? first
        retry = nil
        lease?.send(at: now)
        pending = (next, now)
        return .write(next, expecting: watch.revision)
    }

    private mutating func acknowledge(_ sent: Duration) {
        pending = nil
        readTime = nil
        if lease == nil { lease = Lease(sent: sent) }
        lease?.acknowledge(sent: sent)
    }
}
