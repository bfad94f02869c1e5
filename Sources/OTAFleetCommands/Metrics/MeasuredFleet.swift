import DescriptorIO
import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
import OTAStore

/// A store that measures the operations of another store. It passes each call to that store unchanged.
struct MeasuredStore: FleetStore {
    let store: any FleetStore
    let metrics: Guarded<FleetMetrics>

    func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        let start = ContinuousClock.now
        defer { answered(.read, since: start) }
        return try await store.read(key)
    }

    func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        let start = ContinuousClock.now
        defer { answered(.list, since: start) }
        return try await store.records(in: bucket)
    }

    func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        let start = ContinuousClock.now
        defer { answered(.write, since: start) }
        let outcome = try await store.write(bytes, at: key, expecting: expected)
        metrics.with { $0.wrote(outcome) }
        return outcome
    }

    /// Not measured, because a watch lasts as long as its caller wants.
    func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result { try await store.withChanges(of: bucket, body) }

    func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        let start = ContinuousClock.now
        defer { answered(.object, since: start) }
        try await store.putObject(bytes, digest: digest)
    }

    func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        let start = ContinuousClock.now
        defer { answered(.object, since: start) }
        return try await store.object(digest)
    }

    func append(_ event: FleetEvent) async throws(StoreError) {
        let start = ContinuousClock.now
        defer { answered(.event, since: start) }
        try await store.append(event)
    }

    func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        let start = ContinuousClock.now
        defer { answered(.event, since: start) }
        return try await store.events(after: number)
    }

    private func answered(_ operation: FleetMetrics.Operation, since start: ContinuousClock.Instant) {
        let duration = start.duration(to: .now)
        metrics.with { $0.answered(operation, after: duration) }
    }
}

/// Devices that count the devices in range and the sent bytes of other devices.
struct MeasuredDevices<Devices: GatewayDevices>: GatewayDevices {
    let devices: Devices
    let metrics: Guarded<FleetMetrics>

    func hear(
        isUpdated: @escaping @Sendable (DeviceID) async -> Bool, report: @escaping @Sendable (Sighting) -> Void
    ) async {
        await devices.hear(isUpdated: isUpdated) { [metrics] sighting in
            metrics.with { $0.saw(sighting) }
            report(sighting)
        }
    }

    func push(
        _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, interrupts: AsyncStream<Void>,
        report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        let counted = Guarded(0)
        return await devices.push(bundle, to: device, onlyConfirms: onlyConfirms, interrupts: interrupts) {
            [metrics] step in
            if let sent = step.sent {
                let new = sent - counted.exchange(sent)
                metrics.with { $0.transferred(max(0, new)) }
            }
            report(step)
        }
    }
}
