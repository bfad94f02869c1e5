public import OTAFirmware
public import OTASigning

/// The plan of an update of many devices, and the state that the operator has selected for it. An operator signs the rollout.
public struct Rollout: SignedPayload {
    /// In each state, a gateway can still start a push that only confirms an image on trial.
    public enum State: String, Sendable, CaseIterable {
        case running
        /// No other push starts. The pushes under way continue.
        case paused
        /// No other push starts. A push under way is interrupted if it has not begun to mark the image for boot.
        case aborted
    }

    /// The condition for a halt. The controller halts the rollout if at least `minimum` devices have ended, and if more than
    /// `failedPercent` per cent of these devices have failed. The controller checks the condition for all admitted devices, and for the
    /// devices of the current stage alone. After the operator resumed a halted rollout, only the devices that end later count.
    public struct Halt: Sendable, Hashable {
        /// The maximum percentage of failed devices among the ended devices, 0 to 100.
        public let failedPercent: Int
        /// The number of devices that must have ended before the controller can halt the rollout, 1 to 1,000,000.
        public let minimum: Int

        /// Returns nil if a number is out of its range.
        public init?(failedPercent: Int, minimum: Int) {
            guard (0...100).contains(failedPercent), (1...1_000_000).contains(minimum) else { return nil }
            self.failedPercent = failedPercent
            self.minimum = minimum
        }
    }

    public static let kind = SignedRecord.Kind.rollout
    public static let maximumStages = 16
    public static let maximumControllers = 8
    /// The length of `salt`, in bytes.
    public static let saltLength = 16

    public let name: RolloutName
    /// The number of this version of the record, from 1.
    public internal(set) var serial: Int
    public internal(set) var state: State
    public let release: ReleaseID
    /// The full SHA-256 of the release's manifest.
    public let manifestDigest: SHA256Digest
    public let selection: Selection
    /// The stages in order: 1 to `maximumStages`.
    public let stages: [Stage]
    public let halt: Halt
    /// The devices that count for the stages and the halt. All others get the rollout in its last stage, and are only reported.
    public let enrolment: Enrolment
    /// Random bytes that determine the devices of a percentage (``Stage/place(of:salt:)``).
    public let salt: [UInt8]
    /// The maximum number of attempts for each device, 1 to 1000. Exception: a device on trial can be taken over after its last attempt.
    public let attempts: Int
    /// The keys that sign the progress. The record has the whole keys, so that a gateway needs no other source for them.
    public let controllers: [PublicKey]
    public let created: Timestamp
    public let expires: Timestamp

    /// All JSON members of the record, including members that this otaflash does not know. The next version of the record keeps all
    /// members.
    private var fields: RecordFields

    public var scopeProduct: ProductName? { selection.product }

    private static let what = "the rollout"

    /// Creates the first version of a rollout.
    ///
    /// - Parameter salt: new random bytes, ``saltLength`` of them.
    /// - Throws: `bad-rollout-change` if the release is withdrawn or has another product, or if a value is out of its range.
    public init(
        name: RolloutName, release: Verified<FleetRelease>, selection: Selection, stages: [Stage], halt: Halt,
        attempts: Int, enrolment: Enrolment, salt: [UInt8], controllers: [PublicKey], created: Timestamp,
        expires: Timestamp
    ) throws(FleetError) {
        guard release.value.product == selection.product else {
            throw FleetError(
                .badChange,
                "the release \(release.value.id) is for \(release.value.product), not for \(selection.product)",
                hint:
                    "select the product of the release: --select product=\(release.value.product); or give the release of "
                    + "\(selection.product), which is shown by: otaflash release list")
        }
        guard release.value.state == .published else {
            throw FleetError(
                .badChange, "the release \(release.value.id) is withdrawn",
                hint:
                    "give another release, which is shown by: otaflash release list; or sign a new version, and publish it: "
                    + "otaflash release publish FILE.otaf --key KEY.pem")
        }
        try self.init(
            name, .running, serial: 1, release.value, selection, stages, halt, attempts, enrolment, salt, controllers,
            created, expires)
    }

    /// Creates an aborted rollout in place of a version that cannot be read.
    ///
    /// An aborted rollout starts no update, so its stages have no effect. But a gateway needs the release to confirm an image that is on
    /// trial already. The serial is the time in seconds, because the serial of the lost version is not known, and gateways ignore a lower
    /// one.
    ///
    /// - Throws: `bad-rollout-change`.
    init(
        aborting name: RolloutName, of release: FleetRelease, controller: PublicKey, at created: Timestamp
    ) throws(FleetError) {
        guard let stage = Stage(.percent(100)), let halt = Halt(failedPercent: 5, minimum: 10) else {
            throw FleetError(.badChange, "the stage or the halt of the aborted rollout is not valid")
        }
        try self.init(
            name, .aborted, serial: max(1, Int(created.seconds)), release, Selection(product: release.product), [stage],
            halt, 1, Enrolment(.all, .none), Array(repeating: 0, count: Self.saltLength), [controller], created,
            created.advanced(by: 1))
    }

    /// Whether this is an abort that replaces a rollout which the store has lost. It is later than the lost rollout. `rollout create`
    /// makes no rollout that expires after 1 s.
    var replacesLostRollout: Bool { state == .aborted && expires == created.advanced(by: 1) }

    private init(
        _ name: RolloutName, _ state: State, serial: Int, _ release: FleetRelease, _ selection: Selection,
        _ stages: [Stage], _ halt: Halt, _ attempts: Int, _ enrolment: Enrolment, _ salt: [UInt8],
        _ controllers: [PublicKey], _ created: Timestamp, _ expires: Timestamp
    ) throws(FleetError) {
        self.name = name
        self.serial = serial
        self.state = state
        self.release = release.id
        manifestDigest = release.manifestDigest
        self.selection = selection
        self.stages = stages
        self.halt = halt
        self.attempts = attempts
        self.enrolment = enrolment
        self.salt = salt
        self.controllers = controllers
        self.created = created
        self.expires = expires
        fields = RecordFields(new: Self.what)
        setFields()
        if let problem {
            throw FleetError(.badChange, problem, hint: "correct the option: otaflash rollout create --help")
        }
    }

    /// The description of the first invalid value; nil if all values are valid.
    private var problem: String? {
        guard (1...Self.maximumStages).contains(stages.count) else {
            return "a rollout has 1 to \(Self.maximumStages) stages, not \(stages.count)"
        }
        guard (1...Self.maximumControllers).contains(controllers.count) else {
            return "a rollout has 1 to \(Self.maximumControllers) controllers, not \(controllers.count)"
        }
        guard (1...1000).contains(attempts) else { return "the number of attempts is 1 to 1000, not \(attempts)" }
        guard salt.count == Self.saltLength else {
            return "the salt of the rollout has \(salt.count) bytes, not \(Self.saltLength)"
        }
        guard created < expires else { return "the rollout expires before it is created" }
        guard manifestDigest.bytes.starts(with: Hex.decode(release.text) ?? []) else {
            return "the release's ID is not the start of its manifest's SHA-256"
        }
        return nil
    }

    /// Returns the next version with another state.
    ///
    /// A running rollout can be "changed" to running again: the new serial resumes a rollout that the controller has halted.
    ///
    /// The serial of an abort is the time in seconds, if this is more than the next serial. A store can return an old version of the
    /// rollout, and gateways would ignore an abort whose serial they have already seen. No version follows an abort.
    ///
    /// - Parameter wall: the time of the wall clock; nil if the clock is not set.
    /// - Throws: `bad-rollout-change` if the rollout is aborted.
    func changed(to state: State, at wall: Timestamp?) throws(FleetError) -> Rollout {
        guard self.state != .aborted else {
            throw FleetError(
                .badChange, "the rollout \(name) is aborted, which is final",
                hint: "otaflash rollout create NAME --release \(release)")
        }
        var next = self
        next.serial += 1
        if state == .aborted, let wall { next.serial = max(next.serial, Int(wall.seconds)) }
        next.state = state
        next.fields.set("serial", next.serial)
        next.fields.set("state", state.rawValue)
        return next
    }

    /// Returns whether a device counts for the stages and the halt.
    ///
    /// - Parameter list: the list of this rollout (``Enrolment/list``).
    public func isEnrolled(_ device: DeviceID, in list: EnrolledDevices) -> Bool {
        enrolment.links == .bluetooth && !device.isBluetooth || list.devices.contains(device)
    }

    /// Returns whether the stages 0 to `stage` admit a device.
    public func admits(_ device: DeviceID, groups: [GroupName], in list: EnrolledDevices, upTo stage: Int) -> Bool {
        firstStage(for: device, groups: groups, in: list).map { $0 <= stage } ?? false
    }

    /// Returns the first stage that admits a device; nil if no stage admits it. For a device that is not enrolled, this is the last stage.
    public func firstStage(for device: DeviceID, groups: [GroupName], in list: EnrolledDevices) -> Int? {
        let place = Stage.place(of: device, salt: salt)
        let first = stages.firstIndex { $0.admits(device, groups: groups, place: place) }
        return isEnrolled(device, in: list) ? first : first.map { _ in stages.count - 1 }
    }

    /// The accepted difference between the clocks of two machines, in seconds.
    public static let clockTolerance: Int64 = 300

    /// Checks that the wall clock of this machine is between the creation and the expiry of the rollout, with a tolerance of
    /// `clockTolerance`. A store that is not trusted can withhold newer records, such as an abort. This check limits how long the old
    /// version of a rollout stays in force.
    ///
    /// - Throws: `clock-not-set` if the clock is before the creation of the rollout; `rollout-expired`.
    public func check(wall: Timestamp) throws(FleetError) {
        guard wall >= created.advanced(by: -Self.clockTolerance) else {
            throw FleetError(
                .clockNotSet,
                "the clock of this machine shows \(wall), but the rollout \(name) was created at \(created)",
                hint: "set the clock: timedatectl set-ntp true")
        }
        guard wall <= expires.advanced(by: Self.clockTolerance) else {
            throw FleetError(
                .expired, "the rollout \(name) expired at \(expires)",
                hint: "otaflash rollout create NAME --release \(release)")
        }
    }

    // MARK: - JSON

    /// - Throws: `record-malformed`, `too-new`.
    public init(payload: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: payload, Self.what)
        self.fields = fields
        name = try fields.required("rollout", fields.value("rollout") { RolloutName($0) })
        serial = try fields.serial()
        state = try fields.required("state", fields.value("state") { State(rawValue: $0) })
        release = try fields.required("release", fields.value("release") { ReleaseID($0) })
        manifestDigest = try fields.digest("manifest_sha256")
        selection = try Selection(fields.required("select", fields.fields("select")))
        var stages: [Stage] = []
        for json in try fields.required("stages", fields.json("stages")?.array) {
            stages.append(try Stage(RecordFields(json, "a stage")))
        }
        self.stages = stages
        let limits = try fields.required("halt", fields.fields("halt"))
        let percent = try limits.required("failed_percent", limits.integer("failed_percent"))
        let minimum = try limits.required("minimum", limits.integer("minimum"))
        guard let halt = Halt(failedPercent: percent, minimum: minimum) else {
            throw fields.wrong("halt", "in its range")
        }
        self.halt = halt
        attempts = try fields.required("attempts", fields.integer("attempts"))
        enrolment = try Enrolment(fields.required("enrolled", fields.fields("enrolled")))
        salt = try fields.required(
            "salt", fields.value("salt") { text in Hex.decode(text).flatMap { Hex.encode($0) == text ? $0 : nil } })
        controllers = try fields.required("controllers", fields.list("controllers", Self.key))
        created = try fields.required("created", fields.value("created") { Timestamp($0) })
        expires = try fields.required("expires", fields.value("expires") { Timestamp($0) })
        if let problem { throw .malformed(problem) }
    }

    public func payload() throws(FleetError) -> [UInt8] { try fields.encoded() }

    private mutating func setFields() {
        fields.set("rollout", name)
        fields.set("serial", serial)
        fields.set("state", state.rawValue)
        fields.set("release", release)
        fields.set("manifest_sha256", manifestDigest.description)
        fields.set("select", selection.fields)
        fields.set("stages", JSON.array(stages.map(\.json)))
        var limits = RecordFields.nested("the halt")
        limits.set("failed_percent", halt.failedPercent)
        limits.set("minimum", halt.minimum)
        fields.set("halt", limits)
        fields.set("attempts", attempts)
        fields.set("enrolled", enrolment.fields)
        fields.set("salt", Hex.encode(salt))
        fields.set("controllers", controllers.map { Hex.encode($0.bytes) })
        fields.set("created", created)
        fields.set("expires", expires)
    }

    /// Parses the 32 bytes of an Ed25519 key as 64 lower-case hex digits.
    private static func key(_ text: String) -> PublicKey? {
        guard let bytes = Hex.decode(text), Hex.encode(bytes) == text else { return nil }
        return try? PublicKey(bytes: bytes)
    }
}
