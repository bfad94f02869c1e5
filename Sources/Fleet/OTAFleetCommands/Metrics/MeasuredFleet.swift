package import DescriptorIO
package import OTAFirmware
import OTAFleet
import OTAGateway
import OTASigning
package import OTAStore

/// A store that measures the operations of another store, and passes refused operations to a ``StoreAccess``. It passes each call to the
/// other store unchanged.
package struct MeasuredStore: FleetStore {
    private let store: any FleetStore
    private let metrics: Guarded<FleetMetrics>
    private let access: StoreAccess

    package init(store: any FleetStore, metrics: Guarded<FleetMetrics>, access: StoreAccess) {
        (self.store, self.metrics, self.access) = (store, metrics, access)
    }

    package func read(_ key: RecordKey) async throws(StoreError) -> StoredRecord? {
        try await measured(.read, key.bucket) { () throws(StoreError) in try await store.read(key) }
    }

    package func records(in bucket: Bucket) async throws(StoreError) -> [StoredRecord] {
        try await measured(.list, bucket) { () throws(StoreError) in try await store.records(in: bucket) }
    }

    package func write(
        _ bytes: [UInt8], at key: RecordKey, expecting expected: Revision
    ) async throws(StoreError) -> WriteOutcome {
        let isPresence = key.bucket == .gateways
        do throws(StoreError) {
            let outcome = try await measured(.write, key.bucket) { () throws(StoreError) in
                try await store.write(bytes, at: key, expecting: expected)
            }
            metrics.with { $0.wrote(outcome) }
            if isPresence, outcome != .unknown { access.wrotePresence(of: key.name, nil) }
            return outcome
        } catch {
            if isPresence { access.wrotePresence(of: key.name, error) }
            throw error
        }
    }

    /// Not measured, because a watch lasts as long as its caller wants.
    package func withChanges<Result>(
        of bucket: Bucket, _ body: (RecordChanges) async throws -> Result
    ) async throws -> Result { try await store.withChanges(of: bucket, body) }

    package func putObject(_ bytes: [UInt8], digest: SHA256Digest) async throws(StoreError) {
        try await measured(.object, nil) { () throws(StoreError) in try await store.putObject(bytes, digest: digest) }
    }

    package func object(_ digest: SHA256Digest) async throws(StoreError) -> [UInt8]? {
        try await measured(.object, nil) { () throws(StoreError) in try await store.object(digest) }
    }

    package func append(_ event: FleetEvent) async throws(StoreError) {
        try await measured(.event, nil) { () throws(StoreError) in try await store.append(event) }
    }

    package func events(after number: UInt64) async throws(StoreError) -> [StoredEvent] {
        try await measured(.event, nil) { () throws(StoreError) in try await store.events(after: number) }
    }

    /// - Parameter bucket: the bucket of the operation. Without the records of this bucket, the command cannot work; nil: it can. The record
    ///   of the gateway itself is only for people, and ``write(_:at:expecting:)`` passes its result to ``StoreAccess``.
    private func measured<Result>(
        _ operation: FleetMetrics.Operation, _ bucket: Bucket?, _ body: () async throws(StoreError) -> Result
    ) async throws(StoreError) -> Result {
        let start = ContinuousClock.now
        defer {
            let duration = start.duration(to: .now)
            metrics.with { $0.answered(operation, after: duration) }
        }
        let name = bucket == .gateways ? nil : bucket.map { "\(operation.rawValue) \($0.rawValue)" }
        do throws(StoreError) {
            let result = try await body()
            if let name { access.answered(name, nil) }
            return result
        } catch {
            if let name { access.answered(name, error) }
            throw error
        }
    }
}

/// Devices that count the devices in range and the sent bytes of other devices.
struct MeasuredDevices<Devices: GatewayDevices>: GatewayDevices {
    let devices: Devices
    let metrics: Guarded<FleetMetrics>

    func hear(
        record: @escaping @Sendable (DeviceID) async -> RecordedUse, report: @escaping @Sendable (Sighting) -> Void
    ) async {
        await devices.hear(record: record) { [metrics] sighting in
            metrics.with { $0.saw(sighting) }
            report(sighting)
        }
    }

    func push(
        _ bundle: VerifiedBundle, to device: DeviceID, onlyConfirms: Bool, refusesDowngrade: Bool,
        interrupts: AsyncStream<Void>, report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        let counted = Guarded(0)
        return await devices.push(
            bundle, to: device, onlyConfirms: onlyConfirms, refusesDowngrade: refusesDowngrade, interrupts: interrupts
        ) {
            [metrics] step in
            if let sent = step.sent {
                let new = sent - counted.exchange(sent)
                metrics.with { $0.transferred(max(0, new)) }
            }
            report(step)
        }
    }
}
