import DescriptorIO
import OTAFirmware
import OTAFleet
import OTAGateway
import OTALocalStore
import OTASigning
import OTASimulator
import OTAStore
import OTAUpdate
import Testing

/// A fleet in virtual time.
struct World: Sendable {
    let time: VirtualTime
    let fleet: Fleet
    /// The store itself, and the connection of the gateways and controllers to it.
    let memory, store: any FleetStore
    let air: Air
    let notes: Notes

    init(imageIsBad: Bool = false, _ store: (VirtualTime, MemoryStore) -> any FleetStore = { $1 }) throws {
        let time = VirtualTime()
        let memory = MemoryStore { StoreTime(milliseconds: Int64(time.now.offset / .milliseconds(1))) }
        try self.init(time, memory, store(time, memory), imageIsBad: imageIsBad)
    }

    /// A fleet over a store in a file; nil: in memory.
    init(imageIsBad: Bool = false, local: LocalStore?) throws {
        guard let local else {
            try self.init(imageIsBad: imageIsBad)
            return
        }
        let time = VirtualTime()
        let store = BlockingStore(store: local, time: time)
        try self.init(time, store, store, imageIsBad: imageIsBad)
    }

    private init(
        _ time: VirtualTime, _ memory: any FleetStore, _ store: any FleetStore, imageIsBad: Bool
    ) throws {
        self.time = time
        fleet = try Fleet()
        self.memory = memory
        self.store = store
        air = Air(time, imageIsBad: imageIsBad)
        notes = Notes()
    }

    /// The same fleet through another connection to the store.
    init(_ other: World, through store: any FleetStore) {
        (time, fleet, memory, air) = (other.time, other.fleet, other.memory, other.air)
        (self.store, notes) = (store, other.notes)
    }

    /// Runs the body in virtual time.
    func run(_ body: @escaping @Sendable () async throws -> Void) throws { try time.run(body) }

    /// Runs the body in virtual time. The store has a rollout that admits all devices. The body gets the device 1 and the rollout.
    func run(
        attempts: Int, _ body: @escaping @Sendable (DeviceID, Verified<Rollout>) async throws -> Void
    ) throws {
        let (device, rollout) = (try device(1), try fleet.rollout(attempts: attempts))
        try run {
            try await fleet.publish(in: memory)
            try await fleet.write(rollout, to: memory)
            try await fleet.admit(rollout, in: memory)
            try await body(device, rollout)
        }
    }

    /// A gateway or controller that runs. If `task` is cancelled, it ends without writing anything.
    struct Running: Sendable {
        let task: Task<Void, any Error>
        private let stops: AsyncStream<Void>.Continuation

        init(_ time: VirtualTime, _ body: @escaping @Sendable (AsyncStream<Void>) async throws -> Void) {
            let (stream, feed) = AsyncStream.makeStream(of: Void.self)
            stops = feed
            task = Task(executorPreference: time) { try await body(stream) }
        }

        func stop() async throws {
            stops.yield()
            try await task.value
        }

        func kill() async {
            task.cancel()
            _ = await task.result
        }
    }

    func device(_ number: Int) throws -> DeviceID { try #require(DeviceID("sim-\(number)")) }

    /// - Parameter instance: the number of the run. The runs with the same hundreds use the same state folder.
    func gateway(
        _ name: String, instance: UInt32 = 1, hears: [DeviceID: Int], slots: Int = 4, verifier: Verifier? = nil,
        saving: @escaping @Sendable (SerialMemory) async throws -> Void = { _ in }
    ) throws -> Running {
        try gateway(
            name, instance: instance, devices: Radio(air: air, hears: hears, product: fleet.product), slots: slots,
            verifier: verifier, saving: saving)
    }

    func gateway(
        _ name: String, instance: UInt32, devices: some GatewayDevices, slots: Int = 4, verifier: Verifier? = nil,
        saving: @escaping @Sendable (SerialMemory) async throws -> Void = { _ in }
    ) throws -> Running {
        let holder = Holder(gateway: try #require(GatewayName(name)), instance: GatewayInstance(instance))
        let (created, notes) = (fleet.created, notes)
        let gateway = Gateway(
            Gateway.Settings(
                holder: holder, earlierInstances: Set((instance / 100 * 100..<instance).map { GatewayInstance($0) }),
                operators: fleet.operators, verifier: verifier ?? fleet.verifier,
                memory: SerialMemory(), slots: slots, software: "1.0.0"),
            store: store, devices: devices, clock: time,
            wall: { [time] in created.advanced(by: time.now.offset.components.seconds) },
            random: SplitMix64(seed: UInt64(instance)), save: saving, report: { notes.add("\(name): \($0)") })
        return Running(time) { try await gateway.run(stops: $0) }
    }

    /// - Parameter earlierInstances: the numbers of the earlier runs with the same state folder.
    func controller(instance: UInt32 = 1, earlierInstances: [UInt32] = []) -> Running {
        let (created, notes) = (fleet.created, notes)
        let controller = Controller(
            signer: fleet.controllerKey, instance: GatewayInstance(instance),
            earlierInstances: Set(earlierInstances.map { GatewayInstance($0) }),
            operators: fleet.operators, memory: SerialMemory(),
            store: store, clock: time,
            wall: { [time] in created.advanced(by: time.now.offset.components.seconds) }, save: { _ in },
            report: { notes.add("controller \(instance): \($0)") })
        return Running(time) { _ in await controller.run() }
    }

    /// Waits until the condition is true, at most 1 h of virtual time.
    func wait(
        _ what: Comment, location: SourceLocation = #_sourceLocation, until condition: () async throws -> Bool
    ) async throws {
        for _ in 0..<3600 {
            if try await condition() { return }
            try await time.sleep(for: .seconds(1))
        }
        Issue.record(
            "not after 1 h: \(what)\n\(notes.all.suffix(20).joined(separator: "\n"))", sourceLocation: location)
        throw TimedOut()
    }

    struct TimedOut: Error {}

    /// The names of the controllers that lead, by their own reports.
    var leading: [String] {
        var leads: [String: Bool] = [:]
        for note in notes.all {
            if note.hasSuffix(": leads(true)") { leads[String(note.prefix(12))] = true }
            if note.hasSuffix(": leads(false)") { leads[String(note.prefix(12))] = false }
        }
        return leads.filter(\.value).keys.sorted()
    }

    // MARK: - The store's contents

    /// The record of a device, read from the memory, also while the connection of the gateways is interrupted.
    func record(_ device: DeviceID) async throws -> DeviceRecord? {
        try await memory.read(RecordKey(.devices, #require(RecordName(device.text)))).map {
            try DeviceRecord(parsing: $0.bytes)
        }
    }

    func records() async throws -> [DeviceRecord] {
        try await memory.records(in: .devices).map { try DeviceRecord(parsing: $0.bytes) }
    }

    func progress(of rollout: Verified<Rollout>) async throws -> RolloutProgress? {
        let key = RecordKey(.progress, try #require(RecordName(rollout.value.name.text)))
        return try await memory.read(key).map { try OperatorKeys.progress($0.bytes, of: rollout).value }
    }

    func events() async throws -> [String] {
        try await memory.events(after: 0).map { "\($0.event.device) \($0.event.attempt) \($0.event.kind)" }
    }
}

/// The notes of the gateways and controllers, for the message of a failed test.
final class Notes: Sendable {
    private let lines = Guarded<[String]>([])
    func add(_ line: String) { lines.with { $0.append(line) } }
    var all: [String] { lines.with { $0 } }
}
