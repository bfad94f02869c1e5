import OTAFleet

/// Accepted records of a fleet must be equal after they are written and parsed again.
enum FleetFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        if let record = try? DeviceRecord(parsing: bytes), let text = try? record.encoded(),
            (try? DeviceRecord(parsing: text).encoded()) != text
        {
            return "the record of a device differs after it is written again"
        }
        if let record = try? LeaderRecord(parsing: bytes), let text = try? record.encoded(),
            (try? LeaderRecord(parsing: text)) == nil
        {
            return "the record of a leader is malformed after it is written again"
        }
        if let memory = try? SerialMemory(parsing: bytes), (try? SerialMemory(parsing: memory.encoded())) != memory {
            return "the memory of serials differs after it is written again"
        }
        if let list = try? EnrolledDevices(parsing: bytes), (try? EnrolledDevices(parsing: list.encoded)) != list {
            return "the list of enrolled devices differs after it is written again"
        }
        if let record = try? SignedRecord(parsing: bytes) {
            if let text = try? record.encoded(), (try? SignedRecord(parsing: text)) != record {
                return "the signed record differs after it is written again"
            }
            if let finding = check(payload: record.payload) { return finding }
        }
        return check(payload: bytes)
    }

    /// A payload is parsed only after the verification of its signature. The fuzzer parses it without a signature.
    private static func check(payload: [UInt8]) -> String? {
        if differs(payload, Rollout.self) { return "the rollout differs after it is written again" }
        if differs(payload, FleetRelease.self) { return "the release differs after it is written again" }
        if differs(payload, RolloutProgress.self) { return "the progress differs after it is written again" }
        guard let rollout = try? Rollout(payload: payload), let device = DeviceID("ble-AABBCCDDEEFF") else {
            return nil
        }
        let first = rollout.firstStage(for: device, groups: [], in: .none)
        for stage in rollout.stages.indices
        where rollout.admits(device, groups: [], in: .none, upTo: stage) != (first.map { $0 <= stage } ?? false) {
            return "the stages do not nest"
        }
        return nil
    }

    private static func differs<Payload: SignedPayload>(_ bytes: [UInt8], _: Payload.Type) -> Bool {
        guard let value = try? Payload(payload: bytes), let text = try? value.payload() else { return false }
        return (try? Payload(payload: text)) != value
    }
}
