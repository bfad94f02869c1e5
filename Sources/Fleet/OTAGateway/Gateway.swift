internal import DescriptorIO
internal import OTAFirmware
public import OTAFleet
public import OTASigning
public import OTAStore

/// A gateway of a fleet. It updates the devices in range, as the signed rollouts in the store request.
///
/// The gateway runs one ``DeviceMachine`` for each heard device. Before a push, the gateway verifies signatures. An operator must have
/// signed the rollout and the release. A controller that the rollout names must have signed the progress. One of the gateway's own trusted
/// keys must have signed the bundle.
public struct Gateway<C: Clock, Devices: GatewayDevices>: Sendable where C.Duration == Duration {
    public struct Settings: Sendable {
        /// The name of the gateway, and the identifier of this run of its process. Only one process at a time may use the gateway's name.
        public let holder: Holder
        /// The identifiers of earlier runs of the process with the same state folder.
        public let earlierInstances: Set<GatewayInstance>
        /// The keys that verify rollouts and releases.
        public let operators: OperatorKeys
        /// Verifies bundles with the trusted keys and the policy of this gateway.
        public let verifier: Verifier
        /// The highest accepted serial numbers, read from the disk.
        public let memory: SerialMemory
        /// The maximum number of attempts at the same time, at least 1.
        public let slots: Int
        /// The version of otaflash, for the record of the gateway.
        public let software: String

        public init(
            holder: Holder, earlierInstances: Set<GatewayInstance>, operators: OperatorKeys, verifier: Verifier,
            memory: SerialMemory, slots: Int,
            software: String
        ) {
            self.holder = holder
            self.earlierInstances = earlierInstances
            self.operators = operators
            self.verifier = verifier
            self.memory = memory
            self.slots = max(1, slots)
            self.software = software
        }
    }

    let settings: Settings
    let store: any FleetStore
    let devices: Devices
    let clock: C
    let wall: @Sendable () -> Timestamp?
    let random: any RandomNumberGenerator & Sendable
    let save: @Sendable (SerialMemory) async throws -> Void
    let report: @Sendable (GatewayNote) -> Void

    /// - Parameters:
    ///   - clock: a monotonic clock that also counts the time in which the machine sleeps, such as `ContinuousClock`.
    ///   - wall: returns the time of the wall clock; nil if the clock is not set.
    ///   - random: determines the random part of the waiting time before a lease (``Contention``).
    ///   - save: writes the accepted serial numbers to the disk. Until `save` returns, the gateway starts no push.
    ///   - report: receives messages for the user.
    public init(
        _ settings: Settings, store: any FleetStore, devices: Devices, clock: C,
        wall: @escaping @Sendable () -> Timestamp?,
        random: any RandomNumberGenerator & Sendable = SystemRandomNumberGenerator(),
        save: @escaping @Sendable (SerialMemory) async throws -> Void,
        report: @escaping @Sendable (GatewayNote) -> Void = { _ in }
    ) {
        self.settings = settings
        self.store = store
        self.devices = devices
        self.clock = clock
        self.wall = wall
        self.random = random
        self.save = save
        self.report = report
    }

    /// Runs the gateway until it is stopped.
    ///
    /// After an element in `stops`, the gateway starts nothing new, and interrupts each push that has not marked its image for boot. It
    /// waits for the other pushes, writes all results, and returns. If the store does not answer, the gateway returns 20 s after the end of
    /// the last push.
    ///
    /// If the task is cancelled, the gateway stops at once and writes nothing. Another gateway takes over its devices after 45 s.
    ///
    /// - Throws: `CancellationError` if the task is cancelled.
    public func run(stops: some AsyncSequence<Void, Never> & Sendable) async throws {
        await withDiscardingTaskGroup { group in
            let mailbox = Mailbox(clock, wake: GatewayMessage.woken)
            let post = mailbox.post
            let (watch, devices) = (StoreWatch(store: store, clock: clock), devices)
            for bucket in [Bucket.releases, .rollouts, .progress, .devices] {
                group.addTask { await watch.run(bucket, needsList: bucket != .devices) { post.yield(.store($0)) } }
            }
            group.addTask {
                await devices.hear {
                    await recordedUse(of: $0, post)
                } report: {
                    post.yield(.sighting($0))
                }
            }
            group.addTask { for await _ in stops { post.yield(.stop) } }
            var loop = GatewayLoop(self, mailbox)
            await loop.run(in: &group)
            group.cancelAll()
        }
        try Task.checkCancellation()
    }

    func machine(for device: DeviceID) -> DeviceMachine {
        DeviceMachine(device: device, holder: settings.holder, earlierInstances: settings.earlierInstances)
    }

    /// Reads the record of a device, and returns what it shows. If another gateway performed the last update, the device may be out of
    /// range of this gateway, so the record does not replace a request.
    ///
    /// The method passes the record to the loop, so the loop does not read it again when it hears the device.
    private func recordedUse(
        of device: DeviceID, _ post: AsyncStream<GatewayMessage>.Continuation
    ) async -> RecordedUse {
        post.yield(.reading(device))
        guard let name = RecordName(device.text) else { return .free }
        let stored: StoredRecord?
        do throws(StoreError) { stored = try await store.read(RecordKey(.devices, name)) } catch { return .free }
        post.yield(.read(device, .success(stored)))
        guard let stored, let record = try? DeviceRecord(parsing: stored.bytes) else { return .free }
        let isOwn = record.holder?.gateway == settings.holder.gateway
        return switch record.state {
        case .done where isOwn && record.product != nil && record.version != nil: .updatedHere
        case .running where !isOwn: .inUse(revision: stored.revision.number)
        default: .free
        }
    }
}

/// A message of a gateway to the user.
public enum GatewayNote: Sendable {
    case pushing(DeviceID, RolloutName, attempt: Int)
    /// An attempt ended. `stored` is true if the device's record in the store contains the result.
    case ended(DeviceID, PushEnd, stored: Bool)
    /// A signed record, a bundle or a device's record was not accepted, or the clock or the expiry of a rollout prevents a push.
    case refused(FleetError)
    /// The store does not answer, or refuses a write. The gateway tries again.
    case storeFailed(StoreError)
    /// The accepted serial numbers (`SerialMemory`) could not be written to the disk. The gateway tries again. Until they are on the disk,
    /// it starts no push.
    case notSaved(String)
}

extension FleetError {
    /// Returns this error with the place of the record that it is about: the bucket, the name and the revision. The bytes of a record do
    /// not contain its place, and the contents of a forged record can name another rollout.
    public func naming(_ record: StoredRecord) -> FleetError {
        var error = self
        error.context = "the record \(record.key), revision \(record.revision): \(context)"
        return error
    }
}

/// Runs `body`. If `body` throws an error about the record, the thrown error has the record's place.
public func naming<Result>(
    _ record: StoredRecord, _ body: () throws(FleetError) -> Result
) throws(FleetError) -> Result {
    do throws(FleetError) { return try body() } catch { throw error.naming(record) }
}

/// A message to the loop of a gateway.
enum GatewayMessage: Sendable {
    case store(WatchMessage)
    case sighting(Sighting)
    case stop
    case woken
    case wrote(DeviceID, DeviceMachine.WriteResult, StoreError?)
    /// The device finder reads the record of a device that the loop may not know yet.
    case reading(DeviceID)
    /// The result of a read of the loop, and the answer to a read that the machine of the device has requested.
    case read(DeviceID, Result<StoredRecord?, StoreError>)
    case readBack(DeviceID, Result<StoredRecord?, StoreError>)
    case step(DeviceID, PushStep)
    case pushed(DeviceID, PushEnd)
    case bundle(Verified<FleetRelease>, Result<VerifiedBundle, BundleCache.Failure>)
    case enrolment(SHA256Digest, Result<EnrolledDevices, any Error>)
    case saved((any Error)?)
    case appended(FleetEvent, StoreError?)
    /// The gateway wrote its own record. If another process also writes this record, the value identifies the run of that process.
    case present(Result<GatewayInstance?, StoreError>)
}
