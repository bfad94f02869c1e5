internal import OTAFirmware
internal import OTASigning

/// A stage of a rollout: the devices that it admits, and the conditions for the next stage.
public struct Stage: Sendable, Hashable {
    /// The devices that a stage adds to the devices of the stages before it.
    public enum Audience: Sendable, Hashable {
        /// About this percentage of the selected devices, 1 to 100 (``Stage/place(of:salt:)``).
        case percent(Int)
        case group(GroupName)
        /// A list of chosen devices.
        case devices([DeviceID])
    }

    public let audience: Audience
    /// The minimum percentage of the stage's ended devices that must be updated before the next stage can start, 0 to 100.
    public let successPercent: Int
    /// The number of the stage's devices that must have ended before the next stage can start, 1 to 1,000,000.
    public let minimum: Int
    /// How long the conditions `successPercent` and `minimum` must hold before the next stage starts, in seconds: 0 to 31,536,000 (a year).
    public let soakSeconds: Int

    /// Returns nil if a number is out of its range.
    public init?(_ audience: Audience, successPercent: Int = 95, minimum: Int = 1, soakSeconds: Int = 0) {
        if case .percent(let percent) = audience, !(1...100).contains(percent) { return nil }
        guard (0...100).contains(successPercent), (1...1_000_000).contains(minimum),
            (0...31_536_000).contains(soakSeconds)
        else { return nil }
        self.audience = audience
        self.successPercent = successPercent
        self.minimum = minimum
        self.soakSeconds = soakSeconds
    }

    /// Returns whether the audience of this stage contains a device. The result does not depend on the stages before this stage.
    ///
    /// - Parameter place: the place of the device in the rollout.
    func admits(_ device: DeviceID, groups: [GroupName], place: Int) -> Bool {
        switch audience {
        case .percent(let percent): place < percent * 100
        case .group(let group): groups.contains(group)
        case .devices(let devices): devices.contains(device)
        }
    }

    /// Returns the place of a device in a rollout, 0 to 9999: a stage of n % admits the places below 100 × n.
    ///
    /// The place is the first 4 bytes, big-endian, of the SHA-256 of `otaflash-stage-v2`, the rollout's salt and the device's ID, modulo
    /// 10,000. So every gateway computes the same places without a message. A stage with a higher percentage contains all devices of a
    /// stage with a lower percentage. Each rollout begins with different devices. Before the rollout is signed, the
    /// salt is unknown, so a stranger cannot choose an ID with a low place.
    public static func place(of device: DeviceID, salt: [UInt8]) -> Int {
        let input = Array("otaflash-stage-v2".utf8) + salt + Array(device.text.utf8)
        let number = SHA256.digest(of: input).bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        return number % 10_000
    }

    // MARK: - JSON

    init(_ fields: RecordFields) throws(FleetError) {
        var audiences: [Audience] = []
        if let percent = try fields.integer("percent") { audiences.append(.percent(percent)) }
        if let group = try fields.value("group", { GroupName($0) }) { audiences.append(.group(group)) }
        if let devices = try fields.list("devices", { DeviceID($0) }) { audiences.append(.devices(devices)) }
        guard audiences.count == 1, let audience = audiences.first else {
            throw .malformed("a stage does not have exactly one of 'percent', 'group' and 'devices'")
        }
        let advance = try fields.fields("advance") ?? .nested("the conditions of a stage")
        guard
            let stage = Stage(
                audience, successPercent: try advance.integer("success_percent") ?? 95,
                minimum: try advance.integer("minimum") ?? 1, soakSeconds: try advance.integer("soak_seconds") ?? 0)
        else { throw .malformed("a number of a stage is out of its range") }
        self = stage
    }

    var json: JSON {
        var fields = RecordFields.nested("a stage")
        switch audience {
        case .percent(let percent): fields.set("percent", percent)
        case .group(let group): fields.set("group", group)
        case .devices(let devices): fields.set("devices", devices.map(\.text))
        }
        var advance = RecordFields.nested("the conditions of a stage")
        advance.set("success_percent", successPercent)
        advance.set("minimum", minimum)
        advance.set("soak_seconds", soakSeconds)
        fields.set("advance", advance)
        return fields.object
    }
}
