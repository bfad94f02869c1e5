/// The number of devices of a rollout in each state, computed from the records of all devices.
///
/// The numbers are always computed from all records. A stored number that each event increments would be wrong after a repeated event.
public struct DeviceTotals: Sendable, Hashable {
    /// From this number of enrolled devices with the same fault (``Reason/Blame/device``), the image can be the cause.
    public static let severalDevices = 3

    /// The enrolled devices that the stages 0 to the current stage admit.
    public private(set) var all = RolloutProgress.Counts()
    /// The enrolled devices that the current stage admits, without the devices that an earlier stage admits.
    public private(set) var stage = RolloutProgress.Counts()
    /// The devices of all stages that are not enrolled. They count for no decision.
    public private(set) var notEnrolled = RolloutProgress.Counts()

    /// - Parameters:
    ///   - damaged: the devices whose records cannot be read. Each is waiting if it is enrolled and a stage until now can admit it: its product
    ///     and its groups are not known, and a rollout must not be complete without it.
    ///   - list: the enrolled devices of the rollout.
    public init(
        _ records: some Sequence<DeviceRecord>, damaged: some Sequence<DeviceID> = [DeviceID](), of rollout: Rollout,
        in list: EnrolledDevices, stage current: Int
    ) {
        let hasGroups = rollout.stages.prefix(current + 1).contains { stage in
            if case .group = stage.audience { true } else { false }
        }
        all.waiting = damaged.count { device in
            rollout.isEnrolled(device, in: list)
                && (hasGroups || rollout.admits(device, groups: [], in: list, upTo: current))
        }
        var faults: [Reason: (all: Int, stage: Int)] = [:]
        for record in records {
            guard let count = Self.count(of: record, rollout),
                let first = rollout.firstStage(for: record.device, groups: record.groups, in: list)
            else { continue }
            guard rollout.isEnrolled(record.device, in: list) else {
                notEnrolled[keyPath: count] += 1
                continue
            }
            guard first <= current else { continue }
            all[keyPath: count] += 1
            if first == current { stage[keyPath: count] += 1 }
            if record.state == .givenUp, let reason = record.reason, reason.blame == .device {
                faults[reason, default: (0, 0)].all += 1
                if first == current { faults[reason]?.stage += 1 }
            }
        }
        for fault in faults.values where fault.all >= Self.severalDevices {
            all.blame(fault.all)
            stage.blame(fault.stage)
        }
    }

    /// Returns the count to which a device belongs. Returns nil if the device belongs to no count, for example because the rollout does not
    /// select it, because the operator holds it, or because its job is from a newer rollout.
    private static func count(
        of record: DeviceRecord, _ rollout: Rollout
    ) -> WritableKeyPath<RolloutProgress.Counts, Int>? {
        guard record.rollout == rollout.name, record.state != .idle else {
            // A device whose version is not known can be below the version of the selection.
            let isSelected = rollout.selection.includes(
                product: record.product, version: record.version, groups: record.groups,
                ignoringVersion: record.version == nil)
            return isSelected && record.state != .held && record.mayFollow(rollout.name, rollout.created)
                ? \.waiting : nil
        }
        guard record.product == rollout.selection.product else { return nil }
        switch record.state {
        case .idle, .held: return nil
        case .running: return \.running
        case .waiting: return \.waiting
        case .done: return \.done
        case .givenUp: return record.reason?.blame == .image ? \.failed : \.refused
        }
    }
}

extension RolloutProgress.Counts {
    fileprivate mutating func blame(_ devices: Int) {
        failed += devices
        refused -= devices
    }
}
