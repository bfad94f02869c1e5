/// The number of devices of a rollout in each state, computed from the records of all devices.
///
/// The numbers are always computed from all records. A stored number that each event increments would be wrong after a repeated event.
public struct Tally: Sendable, Hashable {
    /// The devices that the stages 0 to the current stage admit.
    public private(set) var all = RolloutProgress.Counts()
    /// The devices that the current stage admits, without the devices that an earlier stage admits.
    public private(set) var stage = RolloutProgress.Counts()

    /// - Parameter unreadable: the number of records that cannot be read. Each counts as a waiting device of all stages, because its device
    ///   can belong to each rollout, and a rollout must not be complete without it.
    public init(
        _ records: some Sequence<DeviceRecord>, unreadable: Int = 0, of rollout: Rollout, stage current: Int
    ) {
        all.waiting = unreadable
        for record in records {
            guard let count = Self.count(of: record, rollout),
                let first = rollout.firstStage(for: record.device, groups: record.groups), first <= current
            else { continue }
            all[keyPath: count] += 1
            if first == current { stage[keyPath: count] += 1 }
        }
    }

    /// Returns the count to which a device belongs. Returns nil if the device belongs to no count, for example because the rollout does not
    /// select it, because the operator holds it, or because its job is from a newer rollout.
    private static func count(
        of record: DeviceRecord, _ rollout: Rollout
    ) -> WritableKeyPath<RolloutProgress.Counts, Int>? {
        guard record.rollout == rollout.name, record.state != .idle else {
            let isSelected = rollout.selection.includes(
                product: record.product, version: record.version, groups: record.groups)
            return isSelected && record.state != .held && record.mayFollow(rollout.name, rollout.created)
                ? \.waiting : nil
        }
        guard record.product == rollout.selection.product else { return nil }
        switch record.state {
        case .idle, .held: return nil
        case .running: return \.running
        case .waiting: return \.waiting
        case .done: return \.done
        case .givenUp: return record.reason?.blamesImage == true ? \.failed : \.refused
        }
    }
}
