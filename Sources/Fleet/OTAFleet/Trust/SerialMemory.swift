internal import OTAFirmware
internal import OTASigning

/// The highest serial number of each signed record that this machine has accepted. The memory is kept on the local disk.
///
/// A store that is not trusted can replay an old record with a valid signature, for example to continue an aborted rollout. `accept`
/// refuses such a record.
public struct SerialMemory: Sendable, Hashable {
    private struct Entry: Sendable, Hashable {
        var serial: Int
        var digest: SHA256Digest
    }

    private var entries: [String: Entry] = [:]

    public init() {}

    /// Records a verified record.
    ///
    /// - Returns: true if the memory changed, so that it must be written to the disk before the caller acts on the record.
    /// - Throws: `rollback-seen` if the serial is lower than the recorded serial, or if a record with the same serial but another digest
    ///   was recorded.
    public mutating func accept(_ rollout: Verified<Rollout>) throws(FleetError) -> Bool {
        try accept("rollout \(rollout.value.name)", rollout.value.serial, rollout.digest)
    }

    public mutating func accept(_ release: Verified<FleetRelease>) throws(FleetError) -> Bool {
        try accept("release \(release.value.id)", release.value.serial, release.digest)
    }

    public mutating func accept(_ progress: Verified<RolloutProgress>) throws(FleetError) -> Bool {
        try accept("progress \(progress.value.rollout)", progress.value.serial, progress.digest)
    }

    /// The highest accepted serial of a rollout's progress; 0 if no progress was accepted. A controller continues from this number.
    public func progressSerial(of rollout: RolloutName) -> Int { entries["progress \(rollout)"]?.serial ?? 0 }

    /// Whether this machine has accepted a record of a rollout, which the store may have lost since.
    public func hasAccepted(_ rollout: RolloutName) -> Bool { entries["rollout \(rollout)"] != nil }

    private mutating func accept(_ key: String, _ serial: Int, _ digest: SHA256Digest) throws(FleetError) -> Bool {
        let known = entries[key]
        if let known {
            guard serial >= known.serial else {
                throw FleetError(
                    .rollbackSeen,
                    "the \(key) has the serial \(serial), but the serial \(known.serial) was already seen",
                    hint: "check the store: it returns an old record")
            }
            guard serial > known.serial || digest == known.digest else {
                throw FleetError(
                    .rollbackSeen, "two different records of the \(key) have the serial \(serial)",
                    hint: "write the record again with a higher serial")
            }
        }
        entries[key] = Entry(serial: serial, digest: digest)
        return known?.serial != serial
    }

    // MARK: - File

    /// Parses the text of `encoded()`. Each line has a kind, a name, a serial and a digest.
    ///
    /// - Throws: `record-malformed`. The caller must not continue with an empty memory, because an empty memory would accept old
    ///   records.
    public init(parsing text: [UInt8]) throws(FleetError) {
        for (index, line) in text.split(separator: UInt8(ascii: "\n")).enumerated() {
            let parts = line.split(separator: UInt8(ascii: " ")).map { String(decoding: $0, as: UTF8.self) }
            guard parts.count == 4, let serial = Int(parts[2]), serial > 0, let bytes = Hex.decode(parts[3]),
                let digest = SHA256Digest(bytes: bytes)
            else {
                throw .malformed("line \(index + 1) of the memory of serials is not a kind, name, serial and digest")
            }
            entries["\(parts[0]) \(parts[1])"] = Entry(serial: serial, digest: digest)
        }
    }

    public func encoded() -> [UInt8] {
        Array(
            entries.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value.serial) \($0.value.digest)\n" }.joined().utf8
        )
    }
}
