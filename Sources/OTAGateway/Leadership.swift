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

    private static let retryTime = Duration.seconds(2)

    private let controller: KeyID
    private let life: GatewayLife
    private var record: LeaderRecord?
    private var watch: LeaseWatch?
    private var lease: Lease?
    private var pending: (record: LeaderRecord, sent: Duration)?
    /// The time at which the record must be read; nil if no read is planned.
    private var readTime: Duration? = .zero

    init(controller: KeyID, life: GatewayLife) {
        self.controller = controller
        self.life = life
    }

    /// Returns true if this controller leads at this time.
    func leads(at now: Duration) -> Bool { lease.map { now < $0.stopTime } ?? false }

    /// The time at which `tick(at:)` must be called; nil if no call is needed, for example while a write is under way.
    var deadline: Duration? {
        if let readTime { return readTime }
        guard pending == nil, let watch else { return nil }
        return lease.map { min($0.nextBeat, $0.stopTime) } ?? watch.takeoverTime
    }

    /// Records the leader's record that a watch has reported. A record with an older revision than the last known revision is ignored.
    ///
    /// - Parameter stored: nil if the store has no record, or if the record cannot be parsed.
    mutating func observe(_ stored: LeaderRecord?, revision: UInt64, at now: Duration) {
        guard revision >= watch?.revision ?? 0 else { return }
        record = stored
        if watch == nil { watch = LeaseWatch(revision: revision, at: now) }
        watch?.see(revision: revision, at: now)
        if let pending, let stored, stored.isSameWrite(as: pending.record) {
            acknowledge(pending.sent)
        } else if stored?.controller != controller || stored?.life != life {
            lease = nil
        }
    }

    /// Records the answer to the action `read`.
    mutating func readBack(_ stored: LeaderRecord?, revision: UInt64, at now: Duration) {
        observe(stored, revision: revision, at: now)
        pending = nil
    }

    mutating func readFailed(at now: Duration) { readTime = now + Self.retryTime }

    mutating func wrote(_ result: DeviceMachine.WriteResult, at now: Duration) {
        guard let pending else { return }
        switch result {
        case .written(let revision): observe(pending.record, revision: revision, at: now)
        case .conflict: readTime = now
        case .unknown: readTime = now + Self.retryTime
        }
    }

    /// Returns the action that is due now; nil if no action is due.
    mutating func tick(at now: Duration) -> Action? {
        if let readTime {
            guard readTime <= now else { return nil }
            self.readTime = nil
            return .read
        }
        if let stop = lease?.stopTime, stop <= now { lease = nil }
        guard pending == nil, let watch else { return nil }
        let next: LeaderRecord
        if let lease, let record {
            guard lease.nextBeat <= now else { return nil }
            next = record.nextBeat()
        } else {
            guard watch.revision == 0 || watch.takeoverTime <= now else { return nil }
            next = LeaderRecord(controller: controller, life: life)
        }
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
