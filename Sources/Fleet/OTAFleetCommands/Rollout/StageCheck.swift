import OTACommands
import OTAFleet
import OTAGateway
import OTAStore

/// Checks a new rollout with the devices that a store knows: whether each stage has enough devices to start the next stage.
struct StageCheck {
    /// The maximum number of places (``Stage/place(of:salt:)``) that `drawPlaces(_:)` computes. It takes about a second.
    private static let mostPlaces = 500_000

    private(set) var rollout: Rollout
    private let list: EnrolledDevices
    private let devices: StoredDevices
    /// The number of devices in range of the gateways.
    private let heard: Int

    /// Reads the records of gateways.
    ///
    /// - Parameter list: the enrolled devices of the rollout.
    /// - Throws: `StoreError`.
    init(
        _ rollout: Rollout, _ list: EnrolledDevices, _ devices: StoredDevices, in store: some FleetStore
    ) async throws {
        (self.rollout, self.list, self.devices) = (rollout, list, devices)
        heard = try await store.gateways { _, _ in }.reduce(0) { $0 + $1.heard }
    }

    /// True if no gateway has reported a device yet. Then nothing is known about the devices of a stage.
    private var isEmpty: Bool { heard == 0 && devices.records.isEmpty }

    /// The number of devices in range that have no record. Only the devices that a gateway has updated before have one, so the IDs of the
    /// others are not known here. They count as admitted, but not by a rollout for a group: they are in no group.
    private var unknown: Int { rollout.selection.groups.isEmpty ? max(0, heard - devices.records.count) : 0 }

    /// The devices that a stage admits and no earlier stage admits.
    private struct Admitted {
        /// The number of devices that can be devices of the rollout.
        var count = 0
        /// The devices whose product is not known yet. They are not in `count` of a stage with a group.
        var withoutProduct: [DeviceID] = []
        /// The devices that the stage names, but that have no record and are too many to be the unknown devices in range.
        var unlisted: [DeviceID] = []
    }

    /// The enrolled devices without a record. All devices that a stage names are enrolled.
    private var unrecorded: Set<DeviceID> { list.devices.subtracting(devices.records.map(\.device)) }

    /// The known devices that the rollout can update, but that are not enrolled.
    private var notEnrolled: Int {
        devices.records.count {
            !rollout.isEnrolled($0.device, in: list) && $0.product == rollout.selection.product
                && rollout.firstStage(for: $0.device, groups: $0.groups, in: list) != nil
        }
    }

    /// Returns whether a device runs a newer version than the release, and the rollout may not install an older one.
    private func isNewer(_ record: DeviceRecord) -> Bool {
        record.product == rollout.selection.product && rollout.selection.isNewer(record.version)
    }

    private func admitted(by index: Int) -> Admitted {
        var admitted = Admitted()
        for record in devices.records
        where rollout.isEnrolled(record.device, in: list) && !isNewer(record)
            && rollout.firstStage(for: record.device, groups: record.groups, in: list) == index
            && rollout.selection.includes(
                product: rollout.selection.product, version: nil, groups: record.groups, ignoringVersion: true)
        {
            if record.product == nil { admitted.withoutProduct.append(record.device) }
            if record.product == rollout.selection.product { admitted.count += 1 }
        }
        switch rollout.stages[index].audience {
        case .group: break
        case .percent:
            admitted.count += admitted.withoutProduct.count
            admitted.count +=
                rollout.enrolment.links == .bluetooth
                ? unknown
                : unrecorded.count { rollout.firstStage(for: $0, groups: [], in: list) == index }
        case .devices(let names):
            let others = unrecorded.intersection(names).filter {
                rollout.firstStage(for: $0, groups: [], in: list) == index
            }
            let possible = isEmpty ? others.count : min(others.count, unknown)
            admitted.count += admitted.withoutProduct.count + possible
            if possible < others.count { admitted.unlisted = others.sorted() }
        }
        return admitted
    }

    /// True if the store knows how many devices this stage admits, and if these are fewer than it needs to start the next stage.
    private func isShort(_ index: Int, _ admitted: Admitted) -> Bool {
        let isPercent = if case .percent = rollout.stages[index].audience { true } else { false }
        return admitted.count < rollout.stages[index].minimum
            && (!isEmpty || !isPercent || rollout.enrolment.links == .all)
    }

    /// Creates the rollout again with other places of its devices, until each percentage admits as many known devices as the stage needs to
    /// start the next one.
    ///
    /// Without this, a percentage of a small fleet often admits no device: 50 % of 3 devices are no device in one of 8 rollouts.
    ///
    /// - Parameter create: creates the rollout with a new salt.
    mutating func drawPlaces(_ create: () throws -> Rollout) rethrows {
        let percentages = rollout.stages.indices.dropLast().filter {
            if case .percent = rollout.stages[$0].audience { true } else { false }
        }
        let places = (devices.records.count + list.devices.count) * (percentages.count + 1)
        var draws = places == 0 ? 0 : Self.mostPlaces / places
        while draws > 0, percentages.contains(where: { isShort($0, admitted(by: $0)) }) {
            rollout = try create()
            draws -= 1
        }
    }

    /// Warns if a stage admits fewer known devices than it needs to start the next stage, or if all stages together admit no known device.
    func warn(_ console: Console) {
        let stages = rollout.stages.indices.map { admitted(by: $0) }
        var isWarned = false
        for (index, stage) in rollout.stages.enumerated().dropLast() {
            guard isShort(index, stages[index]) else { continue }
            let text =
                "stage \(index + 1) needs \(Figures.count(stage.minimum, "finished device")) for the next stage, but it admits only "
                + "\(stages[index].count) of the known devices"
            warn(text, stages[index], "use a lower min in --advance, or a larger stage", console)
            isWarned = true
        }
        if !isWarned, !isEmpty, stages.allSatisfy({ $0.count == 0 }), let last = stages.last {
            let hint = "compare --select and --stages with the known devices: otaflash fleet devices"
            let text =
                notEnrolled == 0
                ? "the rollout admits none of the known devices"
                : "the rollout cannot be complete, and nothing halts it"
            warn(text, last, hint, console)
        }
        let newer = devices.records.count { isNewer($0) }
        if let newest = rollout.selection.newest, newer > 0 {
            console.warn(
                "the rollout does not select \(Figures.count(newer, "device")) with a newer version than \(newest)",
                hint: "to install \(newest) on all devices, create another rollout with --allow-downgrade")
        }
        if rollout.enrolment.links == .bluetooth, list.devices.isEmpty, unknown > 0 {
            console.note(
                "the store has no record of \(Figures.count(unknown, "device")) in range; Bluetooth devices among them are not "
                    + "enrolled, so they are updated last and do not count (to enrol them, create another rollout with "
                    + "--enrolled FILE)"
            )
        }
    }

    /// - Parameter hint: the hint if the reason is neither a device without a record nor a device without a product.
    private func warn(_ text: String, _ admitted: Admitted, _ hint: String, _ console: Console) {
        let product = rollout.selection.product
        if let device = admitted.unlisted.first {
            let list = admitted.unlisted.map(\.text).joined(separator: ", ")
            let other = devices.nearest(to: device).map { "did you mean \($0)? then" } ?? "if an ID is wrong,"
            console.warn(
                "\(text): the store has no record of \(list), and the rollout can stay in this stage",
                hint: "\(other) end this rollout (otaflash rollout abort \(rollout.name) --key KEY.pem), and create "
                    + "another one; the known IDs: otaflash fleet devices")
        } else if !admitted.withoutProduct.isEmpty {
            let list = admitted.withoutProduct.map(\.text).joined(separator: ", ")
            console.warn(
                "\(text): the product of \(list) is not known yet",
                hint: "if the product is \(product), do nothing: a gateway reads it when the first update starts")
        } else if notEnrolled > 0 {
            console.warn(
                "\(text): \(Figures.count(notEnrolled, "device")) of \(product) without enrolment do not count",
                hint:
                    "write the IDs of your devices to a file (the known IDs: otaflash fleet devices), and create another "
                    + "rollout with --enrolled FILE")
        } else {
            console.warn("\(text): the rollout can stay in this stage", hint: hint)
        }
    }
}
