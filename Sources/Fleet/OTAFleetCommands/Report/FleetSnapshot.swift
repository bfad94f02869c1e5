import OTACommands
import OTAFirmware
import OTAFleet
import OTAGateway
import OTAStore

/// The state of a fleet at one time, as a report shows it.
struct FleetSnapshot {
    /// A stage of a rollout, and its known devices. The devices of an earlier stage are not counted again.
    struct StageRow {
        let stage: Stage
        let devices: RolloutProgress.Counts
    }

    struct RolloutEntry {
        let plan: Rollout
        let summary: RolloutSummary
        let stages: [StageRow]
        let enrolled: EnrolledDevices
        /// The version of the release; nil if the store has no accepted record of the release.
        let version: String?
    }

    /// The devices with one product and one version.
    struct Population: Hashable {
        let product, version: String
    }

    let rollouts: [RolloutEntry]
    let devices: [DeviceRecord]
    let gateways: [GatewayRecord]
    /// The time of the snapshot; nil if the clock of this machine is not set.
    let at: Timestamp?

    /// Reads the store. A record that is not accepted is ignored with a warning.
    ///
    /// - Throws: `StoreError`.
    static func read(_ store: any FleetStore, _ operators: OperatorKeys, _ console: Console) async throws -> Self {
        let devices = try await StoredDevices(store, operators)
        devices.warn(console)
        let gateways = try await store.gateways { name, error in
            console.warn("the record of the gateway \(name) is ignored: \(error.context)", hint: error.failure.hint)
        }
        var versions: [ReleaseID: String] = [:]
        for stored in try await store.records(in: .releases) {
            guard let release = try? operators.release(stored.bytes).value else { continue }
            versions[release.id] = release.version.text
        }
        var rollouts: [RolloutEntry] = []
        for (plan, summary) in try await RolloutSummary.all(operators, devices, store, console) {
            let list = try await EnrolledDevices(of: plan, from: store)
            rollouts.append(
                RolloutEntry(
                    plan: plan, summary: summary,
                    stages: plan.stages.enumerated().map { index, stage in
                        StageRow(
                            stage: stage, devices: DeviceTotals(devices.records, of: plan, in: list, stage: index).stage
                        )
                    }, enrolled: list, version: versions[plan.release]))
        }
        return FleetSnapshot(rollouts: rollouts, devices: devices.records, gateways: gateways, at: WallClock.now())
    }

    /// The number of devices in each state, for each product and version, in the order of their names.
    var populations: [(Population, [DeviceRecord.State: Int])] {
        var counts: [Population: [DeviceRecord.State: Int]] = [:]
        for device in devices {
            let population = Population(
                product: device.product?.text ?? "unknown", version: device.version?.text ?? "unknown")
            counts[population, default: [:]][device.state, default: 0] += 1
        }
        return counts.sorted { ($0.key.product, $0.key.version) < ($1.key.product, $1.key.version) }
            .map { ($0.key, $0.value) }
    }

    /// Returns true if a device has failed in a rollout in which it is not enrolled.
    func isNotEnrolled(_ device: DeviceRecord) -> Bool {
        rollouts.contains { $0.plan.name == device.rollout && !$0.plan.isEnrolled(device.device, in: $0.enrolled) }
    }

    /// The devices that no rollout tries again.
    var givenUp: [DeviceRecord] { devices.filter { $0.state == .givenUp } }

    var failures: [FailureCount] { FailureCount.all(of: givenUp) }
}

extension Reason {
    /// The next step for a device that no rollout tries again for this reason.
    var nextStep: String {
        switch self {
        case .leaseLost, .holderGone: "check that the gateway runs and reaches the store: otaflash fleet gateways"
        case .stopped, .aborted: "create a new rollout: otaflash rollout create NAME --release ID"
        case .trialUnattended: "keep the gateway running during an update, and create a new rollout"
        default: Failure.pushAdvice(for: text) ?? "show the history of the device: otaflash fleet events --device ID"
        }
    }
}
