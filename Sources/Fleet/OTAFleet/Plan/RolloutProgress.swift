public import OTAFirmware

/// The progress of a rollout. A controller that the rollout names computes and signs it.
public struct RolloutProgress: SignedPayload {
    public enum State: String, Sendable, CaseIterable {
        case running
        /// Too many devices failed. Until the operator resumes the rollout, no push starts, except to confirm an image on trial.
        case halted
        case complete
    }

    /// The number of devices in each state. Only enrolled devices that the current stage or an earlier stage admits are counted.
    public struct Counts: Sendable, Hashable {
        public var done = 0
        public var running = 0
        /// The devices that ended with a failure that the image can cause (``Reason/blame``).
        public var failed = 0
        /// The devices whose update ended without success for another reason, such as a refusal or a lost link in the last attempt.
        public var refused = 0
        /// The devices that have no result and no attempt under way in this rollout, for example because no gateway hears them.
        public var waiting = 0

        public init() {}

        public var ended: Int { done + failed + refused }
        public var unfinished: Int { running + waiting }
    }

    /// The numbers of ended and of failed devices when the operator resumed a halted rollout. Only the devices that end later count for the
    /// next halt. A number decreases if fewer devices are counted, for example because the operator holds the failed ones.
    public struct Excused: Sendable, Hashable {
        public let ended: Int
        public let failed: Int
        /// The stage in which the operator resumed the rollout. Each later stage is also checked alone.
        public let stage: Int

        init(ended: Int, failed: Int, stage: Int) {
            self.ended = ended
            self.failed = failed
            self.stage = stage
        }
    }

    public static let kind = SignedRecord.Kind.progress

    public let rollout: RolloutName
    /// The number of this version of the record, from 1.
    public internal(set) var serial: Int
    /// The serial of the newest version of the rollout that a controller has used for the progress.
    public internal(set) var rolloutSerial: Int
    public internal(set) var state: State
    /// The index of the current stage, from 0.
    public internal(set) var stage: Int
    public internal(set) var counts: Counts
    public internal(set) var excused: Excused?
    /// The time of the write, only for reports; nil if the controller's clock was not set.
    public internal(set) var at: Timestamp?

    /// The JSON members that this otaflash does not know. The next version of the progress keeps them.
    private var unknown: RecordFields

    public var scopeProduct: ProductName? { nil }

    private static let what = "the progress"
    private static let known = [
        "rollout", "serial", "rollout_serial", "state", "stage", "counts", "excused", "at",
    ]

    init(rollout: RolloutName, serial: Int, rolloutSerial: Int) {
        self.rollout = rollout
        self.serial = serial
        self.rolloutSerial = rolloutSerial
        state = .running
        stage = 0
        counts = Counts()
        unknown = RecordFields(new: Self.what)
    }

    /// - Throws: `record-malformed`, `too-new`.
    public init(payload: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: payload, Self.what)
        rollout = try fields.required("rollout", fields.value("rollout") { RolloutName($0) })
        serial = try fields.serial()
        rolloutSerial = try fields.serial("rollout_serial")
        state = try fields.required("state", fields.value("state") { State(rawValue: $0) })
        stage = try fields.required("stage", fields.integer("stage"))
        guard (0..<Rollout.maximumStages).contains(stage) else {
            throw fields.wrong("stage", "0 to \(Rollout.maximumStages - 1)")
        }
        let numbers = try fields.required("counts", fields.fields("counts"))
        func count(_ fields: RecordFields, _ name: String) throws(FleetError) -> Int {
            let number = try fields.required(name, fields.integer(name))
            guard number < 1 << 31 else { throw fields.wrong(name, "below 2^31") }
            return number
        }
        var counts = Counts()
        counts.done = try count(numbers, "done")
        counts.running = try count(numbers, "running")
        counts.failed = try count(numbers, "failed")
        counts.refused = try count(numbers, "refused")
        counts.waiting = try count(numbers, "waiting")
        self.counts = counts
        if let excused = try fields.fields("excused") {
            self.excused = Excused(
                ended: try count(excused, "ended"), failed: try count(excused, "failed"),
                stage: try count(excused, "stage"))
        }
        at = try fields.value("at") { Timestamp($0) }
        unknown = fields.removing(Self.known)
    }

    public func payload() throws(FleetError) -> [UInt8] {
        var fields = unknown
        fields.set("rollout", rollout)
        fields.set("serial", serial)
        fields.set("rollout_serial", rolloutSerial)
        fields.set("state", state.rawValue)
        fields.set("stage", stage)
        var numbers = RecordFields.nested("the counts")
        numbers.set("done", counts.done)
        numbers.set("running", counts.running)
        numbers.set("failed", counts.failed)
        numbers.set("refused", counts.refused)
        numbers.set("waiting", counts.waiting)
        fields.set("counts", numbers)
        if let excused {
            var numbers = RecordFields.nested("the excused failures")
            numbers.set("ended", excused.ended)
            numbers.set("failed", excused.failed)
            numbers.set("stage", excused.stage)
            fields.set("excused", numbers)
        }
        fields.set("at", at)
        return try fields.encoded()
    }
}
