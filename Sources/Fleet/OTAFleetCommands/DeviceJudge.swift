import OTACommands
import OTAFirmware
import OTAFleet
import OTAStore

/// Compares the records of devices, which are not signed, with the signed records of operators.
struct DeviceJudge {
    private let operators: OperatorKeys
    private let signed: AssignmentList
    private let now: Timestamp?
    /// The rollouts that start updates now.
    private let running: [Rollout]

    /// Reads the releases and rollouts.
    ///
    /// - Throws: `StoreError`.
    init(_ operators: OperatorKeys, in store: some FleetStore) async throws {
        self.operators = operators
        signed = try await AssignmentList(signedBy: operators, in: store)
        let now = WallClock.now()
        self.now = now
        running = signed.rollouts.map(\.value).filter { rollout in
            rollout.state == .running && (now.map { $0 <= rollout.expires } ?? true)
        }
    }

    /// Returns the reason why no running rollout updates a device; nil if one can, or if the device is done in its rollout.
    func obstacle(of record: DeviceRecord) -> String? {
        let job = signed.job(of: record, at: now)
        let name = record.rollout.map { "\($0)" } ?? ""
        if record.state == .held { return "held: otaflash device release \(record.device)" }
        if job == .unsigned, let rollout = signed.rollouts.first(where: { $0.value.name == record.rollout }) {
            return "the record has not the product of the rollout \(name), \(rollout.value.selection.product)"
        }
        if job == .unsigned { return "no operator has signed the rollout \(name)" }
        if job == .unchecked, record.rollout != nil { return "the rollout \(name) is of an unknown operator" }
        let bounded = record.bounded(by: job)
        if bounded.version != record.version { return "the version is not that of the rollout \(name)" }
        switch record.state {
        case .running, .held: return nil
        case .done, .givenUp, .idle, .waiting:
            let isFree = running.contains { rollout in
                let isOwn = rollout.name == record.rollout && record.state == .waiting
                return rollout.selection.includes(
                    product: record.product, version: bounded.version, groups: record.groups, ignoringVersion: isOwn)
                    && bounded.mayFollow(rollout.name, rollout.created)
            }
            if isFree || record.state == .done { return nil }
            return record.state == .givenUp
                ? "given up in \(name): create a new rollout" : "no running rollout selects it"
        }
    }

    /// Returns the reset in the record of a device; nil if no operator has signed one.
    func reset(of record: DeviceRecord) -> FleetDevice.Reset? {
        guard let bytes = record.reset, let reset = try? operators.reset(bytes, of: record.device) else { return nil }
        return FleetDevice.Reset(at: reset.value.at.description, signer: "\(reset.signers[0])")
    }
}
