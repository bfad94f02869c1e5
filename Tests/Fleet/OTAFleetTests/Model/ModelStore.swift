import OTAFirmware
import OTAFleet

/// A store of a model world: records with revisions, compare-and-set, and watches that lag.
///
/// A write can lose its request or its acknowledgement, or can arrive late. A gateway without a connection gets no answer.
final class ModelStore {
    struct Stored {
        var bytes: [UInt8]
        var revision: UInt64
    }

    private unowned let world: ModelWorld
    private(set) var devices: [DeviceID: (record: DeviceRecord, revision: UInt64)] = [:]
    private(set) var rollout: Stored?
    private(set) var progress: Stored?
    private var lastRevision: UInt64 = 0
    /// True if no gateway reaches the store.
    var isAway = false
    /// Called after each write of a device's record.
    var onDevice: (DeviceID, DeviceRecord, UInt64) -> Void = { _, _, _ in }
    var onSigned: () -> Void = {}
    private(set) var writes = 0
    /// The number of times that each device's record became `done`.
    private(set) var ends: [DeviceID: Int] = [:]

    init(_ world: ModelWorld) { self.world = world }

    /// Writes a device's record by compare-and-set. Returns nil for a conflict.
    private func apply(_ record: DeviceRecord, expecting: UInt64) -> UInt64? {
        guard (devices[record.device]?.revision ?? 0) == expecting else { return nil }
        lastRevision += 1
        writes += 1
        if record.state == .done, devices[record.device]?.record.state != .done { ends[record.device, default: 0] += 1 }
        var stored = record
        // Some worlds also write and parse the JSON.
        if world.parsesRecords {
            do { stored = try DeviceRecord(parsing: record.encoded()) } catch {
                world.fail("the record is lost: \(error)")
            }
        }
        devices[record.device] = (stored, lastRevision)
        world.check(stored)
        onDevice(record.device, stored, lastRevision)
        return lastRevision
    }

    /// Writes a device's record. `answer` is called on the gateway.
    func write(
        _ record: DeviceRecord, expecting: UInt64, from gateway: ModelGateway,
        _ answer: @escaping (DeviceMachine.WriteResult) -> Void
    ) {
        func late() { world.after(world.random(6000, 40_000)) { _ = self.apply(record, expecting: expecting) } }
        func noAnswer() { world.after(5000, on: gateway) { answer(.unknown) } }
        let fate = world.hasFaults ? world.random(0, 99) : 99
        guard !isAway, !gateway.isCutOff else {
            // A client that publishes while it is not connected may send the message later.
            if fate < 20 { late() }
            return noAnswer()
        }
        guard fate >= 3 else { return noAnswer() }
        guard fate >= 5 else {
            late()
            return noAnswer()
        }
        let latency = world.random(10, 300)
        world.after(latency) { [self] in
            let revision = apply(record, expecting: expecting)
            guard fate >= 9 else { return world.after(5000 - latency, on: gateway) { answer(.unknown) } }
            world.after(world.random(5, 100), on: gateway) {
                answer(revision.map { .written(revision: $0) } ?? .conflict)
            }
        }
    }

    /// Reads a device's record. `answer` is called on the gateway, with nil if the read failed.
    func read(
        _ device: DeviceID, from gateway: ModelGateway,
        _ answer: @escaping ((record: DeviceRecord?, revision: UInt64)?) -> Void
    ) {
        guard !isAway, !gateway.isCutOff, !world.hasFaults || world.chance(95) else {
            return world.after(5000, on: gateway) { answer(nil) }
        }
        world.after(world.random(10, 300)) { [self] in
            let found = devices[device]
            world.after(world.random(5, 100), on: gateway) { answer((found?.record, found?.revision ?? 0)) }
        }
    }

    // MARK: - Signed records

    func write(rollout bytes: [UInt8]) {
        lastRevision += 1
        rollout = Stored(bytes: bytes, revision: lastRevision)
        onSigned()
    }

    func write(progress bytes: [UInt8], expecting: UInt64) -> Bool {
        guard (progress?.revision ?? 0) == expecting else { return false }
        lastRevision += 1
        progress = Stored(bytes: bytes, revision: lastRevision)
        onSigned()
        return true
    }
}
