import OTACommands
import OTAFleet
import OTAStore

/// The records of all devices in a store.
struct StoredDevices: Sendable {
    /// The valid records, in the order of the IDs.
    private(set) var records: [DeviceRecord] = []
    /// The names of the records that are not valid, and the reasons for the first ones. A gateway can write many such records.
    private(set) var refused: [RecordName] = []
    private var reasons: [RecordName: FleetError] = [:]
    /// The number of records that are not valid and have a warning each.
    private static let mostWarnings = 3

    /// Reads the records.
    ///
    /// - Parameter operators: if given, the job of each record counts only as far as these operators have signed its rollout.
    /// - Throws: `StoreError`.
    init(_ store: some FleetStore, _ operators: OperatorKeys? = nil) async throws {
        let signed =
            if let operators { try await AssignmentList(signedBy: operators, in: store) } else { AssignmentList?.none }
        let now = WallClock.now()
        for stored in try await store.records(in: .devices) {
            do throws(FleetError) {
                let record = try DeviceRecord(stored)
                records.append(signed.map { record.bounded(by: $0.job(of: record, at: now)) } ?? record)
            } catch {
                refused.append(stored.key.name)
                if reasons.count < Self.mostWarnings { reasons[stored.key.name] = error }
            }
        }
        records.sort { $0.device < $1.device }
    }

    /// Returns the known ID that is most similar to an ID without a record; nil if no ID is similar. An ID can be mistyped, or without its
    /// start: `hall` instead of `sim-hall`.
    func nearest(to device: DeviceID) -> String? {
        let known = records.map(\.device.text)
        return known.first { $0.hasSuffix("-\(device)") } ?? Suggestion.nearest(to: device.text, in: known)
    }

    /// Prints a warning for each record that is not valid, or one warning if there are many.
    ///
    /// - Parameter known: the records that already have a warning. The method adds the others.
    func warn(_ console: Console, except known: inout Set<RecordName>) {
        let names = refused.filter { known.insert($0).inserted }
        guard names.count <= Self.mostWarnings else {
            let first = names.prefix(Self.mostWarnings).map(\.description).joined(separator: ", ")
            console.warn(
                "the records of \(names.count) devices are not valid, so these devices count as unfinished: \(first) and "
                    + "\(names.count - Self.mostWarnings) more",
                hint: "remove these records: otaflash fleet clean")
            return
        }
        for name in names {
            let hint = DeviceRecord.replacementHint("\(name)")
            let error = reasons[name] ?? FleetError(.malformed, "it is damaged", hint: hint)
            console.warn(
                "the record of the device \(name) is not valid, so the device counts as unfinished: \(error.context)",
                hint: error.failure.hint)
        }
    }

    func warn(_ console: Console) {
        var known: Set<RecordName> = []
        warn(console, except: &known)
    }

    /// Returns the number of devices in each state for a rollout.
    func totals(of rollout: Rollout, in list: EnrolledDevices, stage current: Int) -> DeviceTotals {
        let damaged = refused.compactMap { DeviceID($0.description) }
        return DeviceTotals(records, damaged: damaged, of: rollout, in: list, stage: current)
    }

    /// Returns the reasons of the enrolled devices that the rollout has given up.
    func failures(of rollout: Rollout, in list: EnrolledDevices) -> [FailureCount] {
        FailureCount.all(
            of: records.filter {
                $0.state == .givenUp && $0.rollout == rollout.name && rollout.isEnrolled($0.device, in: list)
            })
    }

    /// Returns the number of devices that a started stage admits, but whose last job is from a newer rollout. They are in no count of the
    /// older rollout.
    func moved(from rollout: Rollout, in list: EnrolledDevices, stage current: Int) -> Int {
        records.count {
            $0.rollout != rollout.name && !$0.mayFollow(rollout.name, rollout.created)
                && rollout.selection.includes(
                    product: $0.product, version: $0.version, groups: $0.groups, ignoringVersion: true)
                && rollout.admits($0.device, groups: $0.groups, in: list, upTo: current)
        }
    }
}

/// A reason, and the number of devices that no rollout tries again for this reason.
struct FailureCount {
    let reason: Reason
    let devices: Int

    /// Returns the reasons of devices that were given up, from the most frequent.
    static func all(of devices: [DeviceRecord]) -> [FailureCount] {
        Dictionary(grouping: devices) { $0.reason ?? .linkLost }
            .map { FailureCount(reason: $0.key, devices: $0.value.count) }
            .sorted { ($1.devices, $0.reason) < ($0.devices, $1.reason) }
    }
}

extension AssignmentList {
    /// Creates a list of the releases and rollouts in a store that one of the operators has signed.
    ///
    /// - Throws: `StoreError`.
    init(signedBy operators: OperatorKeys, in store: some FleetStore) async throws {
        self.init(operators: operators, memory: SerialMemory())
        // A record that is not accepted does not count.
        for stored in try await store.records(in: .releases) {
            guard let id = ReleaseID(stored.key.name.description) else { continue }
            _ = try? add(release: stored.bytes, named: id)
        }
        for stored in try await store.records(in: .rollouts) {
            guard let name = RolloutName(stored.key.name.description) else { continue }
            _ = try? add(rollout: stored.bytes, named: name)
        }
    }
}

extension DeviceRecord {
    /// Parses a stored record.
    ///
    /// - Throws: `FleetError` if the record is not valid, or if it is the record of another device.
    init(_ stored: StoredRecord) throws(FleetError) {
        let name = stored.key.name.description
        let hint = DeviceRecord.replacementHint(name)
        let record: DeviceRecord
        do { record = try DeviceRecord(parsing: stored.bytes) } catch {
            let reset =
                "install a newer otaflash; or, if no newer otaflash has written the record, replace it: "
                + "otaflash device reset \(name) --key KEY.pem"
            throw FleetError(error.code, error.context, hint: error.code == .tooNew ? reset : hint)
        }
        guard record.device.text == name else {
            throw FleetError(.malformed, "the record of the device \(record.device) is stored as \(name)", hint: hint)
        }
        self = record
    }
}
