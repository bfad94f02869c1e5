package import OTAFleet
package import OTAGateway
package import OTAStore

/// The metrics of a gateway, of a controller, or of both in one process. All counters start at 0 when the process starts.
package struct FleetMetrics: Sendable {
    /// An operation of the store. The raw value is the label of its duration.
    package enum Operation: String, Sendable, CaseIterable {
        case read, list, write, object, event
    }

    /// The ended pushes of a gateway.
    package struct Attempts: Encodable, Sendable {
        package private(set) var updated = 0
        package private(set) var retried = 0
        package private(set) var refused = 0
        package private(set) var failed = 0

        fileprivate mutating func count(_ end: PushEnd) {
            switch end {
            case .updated: updated += 1
            case .retry: retried += 1
            case .refused: refused += 1
            case .failed: failed += 1
            }
        }
    }

    private let isGateway, isController: Bool
    package private(set) var attempts = Attempts()
    private var transferBytes = 0
    private var lostLeases = 0
    private var conflicts = 0
    private var heard: Set<DeviceID> = []
    private var storeTimes: [Operation: Histogram] = [:]
    private var rollouts: [RolloutName: (counts: RolloutProgress.Counts, notEnrolled: RolloutProgress.Counts)] = [:]

    package init(isGateway: Bool, isController: Bool) {
        (self.isGateway, self.isController) = (isGateway, isController)
    }

    /// Counts a push that ended.
    ///
    /// - Parameter stored: true if the device's record in the store contains the result. If it does not, the gateway has lost the lease.
    package mutating func ended(_ end: PushEnd, stored: Bool) {
        attempts.count(end)
        if !stored || end == .retry(.leaseLost) { lostLeases += 1 }
    }

    package mutating func transferred(_ bytes: Int) { transferBytes += bytes }

    package mutating func saw(_ sighting: Sighting) {
        switch sighting {
        case .heard(let device, _, _, _): heard.insert(device)
        case .lost(let device): heard.remove(device)
        }
    }

    package mutating func answered(_ operation: Operation, after duration: Duration) {
        storeTimes[operation, default: Histogram()].add(duration)
    }

    package mutating func wrote(_ outcome: WriteOutcome) { if outcome == .conflict { conflicts += 1 } }

    /// Records a message of the controller. Only the controller that leads reports devices. Otherwise the sum over two controllers would be
    /// wrong.
    package mutating func note(_ note: ControllerNote) {
        switch note {
        case .leads: rollouts = [:]
        case .counted(let rollout, let counts, let notEnrolled): rollouts[rollout] = (counts, notEnrolled)
        case .wrote, .refused, .storeFailed, .notSaved: break
        }
    }

    /// The metrics as text.
    package var text: String {
        var text = PrometheusText()
        if isGateway { addGateway(to: &text) }
        text.metric(
            "otaflash_stale_records_total", .counter,
            "Writes that the store did not perform, because another process had changed the record.")
        text.sample(conflicts)
        text.metric("otaflash_store_seconds", .histogram, "Durations of the operations of the store, in seconds.")
        for operation in Operation.allCases {
            guard let times = storeTimes[operation] else { continue }
            text.histogram(times, [("operation", operation.rawValue)])
        }
        if isController { addRollouts(to: &text) }
        return text.text
    }

    private func addGateway(to text: inout PrometheusText) {
        text.metric("otaflash_pushes_total", .counter, "Pushes that ended, by result.")
        text.sample(attempts.updated, [("result", "updated")])
        text.sample(attempts.retried, [("result", "retried")])
        text.sample(attempts.refused, [("result", "refused")])
        text.sample(attempts.failed, [("result", "failed")])
        text.metric(
            "otaflash_transfer_bytes_total", .counter,
            "Bytes of plain and encoded images that were sent to devices, including the bytes that were sent again.")
        text.sample(transferBytes)
        text.metric("otaflash_leases_lost_total", .counter, "Pushes that lost the lease of their device.")
        text.sample(lostLeases)
        text.metric("otaflash_devices_heard", .gauge, "Devices in range.")
        text.sample(heard.count)
    }

    private func addRollouts(to text: inout PrometheusText) {
        let sorted = rollouts.sorted { $0.key < $1.key }
        func add(_ counts: RolloutProgress.Counts, of rollout: RolloutName) {
            for (state, count) in [
                ("done", counts.done), ("running", counts.running), ("waiting", counts.waiting),
                ("failed", counts.failed), ("refused", counts.refused),
            ] { text.sample(count, [("rollout", rollout.text), ("state", state)]) }
        }
        text.metric(
            "otaflash_rollout_devices", .gauge,
            "Enrolled devices of a rollout, by state. Only the controller that leads reports them.")
        for (rollout, devices) in sorted { add(devices.counts, of: rollout) }
        text.metric(
            "otaflash_rollout_devices_not_enrolled", .gauge,
            "Devices of a rollout that are not enrolled, by state. They have no effect on its stages.")
        for (rollout, devices) in sorted { add(devices.notEnrolled, of: rollout) }
    }
}
