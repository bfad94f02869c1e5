public import OTAFirmware
internal import OTASigning

/// The gateway process that has the lease of a device.
public struct Holder: Sendable, Hashable {
    public let gateway: GatewayName
    public let instance: GatewayInstance

    public init(gateway: GatewayName, instance: GatewayInstance) {
        self.gateway = gateway
        self.instance = instance
    }
}

/// The record of a device. It contains both the lease and the job, so that they cannot contradict each other.
///
/// A record is written only by compare-and-set on the revision that was read. `changed(_:at:)` performs all permitted changes.
public struct DeviceRecord: Sendable, Hashable {
    public enum State: String, Sendable, CaseIterable {
        /// The device had no job yet.
        case idle
        /// A gateway has the lease and pushes.
        case running
        /// The last attempt ended without a result. The next attempt can start after the pause `retryAfter`.
        case waiting
        /// The device runs the image of the rollout, and the image is confirmed.
        case done
        /// No further attempt is made in this rollout.
        case givenUp = "given-up"
        /// The operator keeps the device out of all rollouts.
        case held
    }

    /// The phase of a push. The phase `trial` begins before the push marks the image for boot. In this phase, the push is not interrupted.
    /// The phase stays `trial` in the next attempts of the same rollout, until a push finds that the device is not on trial any more.
    public enum Phase: String, Sendable, CaseIterable {
        case connect, transfer, trial
    }

    public let device: DeviceID
    public internal(set) var state: State
    /// The product and version that a gateway last read from the device. After an update, `version` is the version of the release.
    public var product: ProductName?
    public var version: SemanticVersion?
    /// The groups of the device, in ascending order.
    public internal(set) var groups: [GroupName]

    /// The rollout of the current or last job, and the creation time of this rollout. Only a newer rollout can replace it.
    public internal(set) var rollout: RolloutName?
    public internal(set) var rolloutCreated: Timestamp?
    /// The number of the current or last attempt in this rollout, from 1; 0 before the first attempt.
    public internal(set) var attempt: Int
    /// The number of attempts in this rollout that ended because of a gateway, the store or an operator. They do not count for
    /// `Rollout.attempts`, so that outages do not give up a device.
    public internal(set) var interruptedAttempts: Int
    /// The gateway of the current or last attempt.
    public internal(set) var holder: Holder?
    /// The number of the holder's writes in this attempt, from 1; 0 before the first attempt.
    public internal(set) var beat: Int
    /// The phase of the push. In the state `waiting`, and in `held` after it, the phase is `trial` if the device may be on trial with the
    /// image; otherwise nil. In all other states without a push, it is nil.
    public internal(set) var phase: Phase?
    /// The number of bytes that the device has received, and the size of the image in bytes.
    public internal(set) var offset: Int?
    public internal(set) var total: Int?
    /// The reason why the last attempt failed; nil before the first attempt, after a success, and during an attempt.
    public internal(set) var reason: Reason?
    /// The pause before the next attempt, in seconds. It starts when a gateway first sees this version of the record.
    public internal(set) var retryAfter: Int?
    /// The state to which the device returns from `held`; nil in every other state.
    public internal(set) var heldState: State?
    /// The time of the first write; nil if the writer's clock was not set. A rollout that is signed later uses it to enrol the device
    /// (``EnrolledDevices``).
    public internal(set) var since: Timestamp?
    /// The time of the write, only for reports; nil if the writer's clock was not set.
    public internal(set) var at: Timestamp?

    private var fields: RecordFields

    /// Creates the record of a device without a job.
    public init(device: DeviceID) {
        self.device = device
        state = .idle
        groups = []
        attempt = 0
        interruptedAttempts = 0
        beat = 0
        fields = RecordFields(new: Self.what)
    }

    /// Creates the record of a device after a signed reset. It has no job.
    ///
    /// - Parameter old: the record before the reset; nil if it is not valid. Its groups, product, version and first time stay.
    public init(of reset: DeviceReset, signed: SignedRecord, replacing old: DeviceRecord?) {
        self.init(device: reset.device)
        (product, version, groups, since) = (old?.product, old?.version, old?.groups ?? [], old?.since)
        at = reset.at
        fields.set("reset", signed.fields)
    }

    /// The signed reset that created this record; nil if there was none. ``OperatorKeys`` verifies it.
    public var reset: [UInt8]? { fields.json("reset")?.text }

    private static let what = "the record of a device"
    /// The numbers of a record are below this limit.
    static let numberLimit = 1 << 31

    /// Parses a record.
    ///
    /// - Throws: `record-malformed`, `record-too-large`, `too-new`.
    public init(parsing bytes: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: bytes, Self.what)
        self.fields = fields
        device = try fields.required("device", fields.value("device") { DeviceID($0) })
        state = try fields.required("state", fields.value("state") { State(rawValue: $0) })
        product = try fields.value("product") { ProductName($0) }
        version = try fields.value("version") { SemanticVersion($0) }
        groups = try fields.list("groups") { GroupName($0) } ?? []
        rollout = try fields.value("rollout") { RolloutName($0) }
        rolloutCreated = try fields.value("rollout_created") { Timestamp($0) }
        attempt = try fields.integer("attempt") ?? 0
        interruptedAttempts = min(attempt, try fields.integer("interrupted_attempts") ?? 0)
        beat = try fields.integer("beat") ?? 0
        let gateway = try fields.value("gateway") { GatewayName($0) }
        let instance = try fields.value("instance") { GatewayInstance($0) }
        guard (gateway == nil) == (instance == nil) else {
            throw .malformed("\(Self.what) has a gateway without an instance")
        }
        holder = gateway.flatMap { gateway in instance.map { Holder(gateway: gateway, instance: $0) } }
        phase = try fields.value("phase") { Phase(rawValue: $0) }
        offset = try fields.integer("offset")
        total = try fields.integer("total")
        reason = try fields.value("reason") { Reason($0) }
        let pause = try fields.integer("retry_after")
        // A gateway writes at most this pause. With a longer one, a foreign record would keep the device waiting for years.
        retryAfter = pause.map { min($0, Self.longestWait) }
        heldState = try fields.value("held_state") { State(rawValue: $0) }
        since = try fields.value("since") { Timestamp($0) }
        at = try fields.value("at") { Timestamp($0) }
        guard state != .running || (rollout != nil && rolloutCreated != nil && holder != nil && attempt > 0) else {
            throw .malformed("\(Self.what) is running without a rollout, a gateway or an attempt")
        }
        // With this limit, the sum of a counter and another small number cannot overflow.
        guard attempt < Self.numberLimit, beat < Self.numberLimit, (pause ?? 0) < Self.numberLimit else {
            throw .malformed("\(Self.what) has a number above \(Self.numberLimit)")
        }
    }

    /// Returns the record as JSON, with the unknown members of the parsed record.
    ///
    /// - Throws: `record-too-large`.
    public func encoded() throws(FleetError) -> [UInt8] {
        var fields = fields
        fields.set("device", device)
        fields.set("product", product?.text)
        fields.set("version", version?.text)
        fields.set("rollout", rollout)
        fields.set("rollout_created", rolloutCreated)
        fields.set("state", state.rawValue)
        fields.set("held_state", heldState?.rawValue)
        fields.set("phase", phase?.rawValue)
        fields.set("attempt", attempt == 0 ? nil : attempt)
        fields.set("interrupted_attempts", interruptedAttempts == 0 ? nil : interruptedAttempts)
        fields.set("gateway", holder?.gateway)
        fields.set("instance", holder?.instance)
        fields.set("beat", beat == 0 ? nil : beat)
        fields.set("offset", offset)
        fields.set("total", total)
        fields.set("reason", reason)
        fields.set("retry_after", retryAfter)
        fields.set("groups", groups.map(\.text))
        fields.set("since", since)
        fields.set("at", at)
        return try fields.encoded()
    }

    /// True if the device may be on trial with the image of the rollout: a push has marked the image for boot, and no push has seen the end
    /// of the trial. The next attempt must confirm the image.
    public var isOnTrial: Bool { phase == .trial && (state == .running || state == .waiting) }

    /// True if both records are from the same attempt: they have the same rollout, attempt number, gateway and instance.
    public func isSameAttempt(as other: DeviceRecord) -> Bool {
        rollout == other.rollout && attempt == other.attempt && holder == other.holder
    }

    /// True if both records are from the same write: they have the same attempt, beat, state and phase.
    public func isSameWrite(as other: DeviceRecord) -> Bool {
        isSameAttempt(as: other) && beat == other.beat && state == other.state && phase == other.phase
    }
}

extension DeviceRecord {
    /// The next step of an operator if the record of a device is not valid. A new record does not name the last rollout of the device, so
    /// an older rollout could select the device.
    public static func replacementHint(_ device: String) -> String {
        "replace the record: otaflash device hold \(device); if no older rollout can select the device, then use "
            + "otaflash device release \(device)"
    }
}
