public import OTAFirmware

/// The record that shows which of several controllers leads. The times of ``Lease`` and ``LeaseWatch`` also apply to this record.
///
/// The record only avoids double work. It is not signed, because two controllers that both write the progress do no harm. From the same
/// records they compute the same progress, except for times. Each write is a compare-and-set, and each progress is signed.
public struct LeaderRecord: Sendable, Hashable {
    public let controller: KeyID
    /// Identifies one run of the controller's process. After a restart, the process has a new identifier.
    public let instance: GatewayInstance
    /// The number of the leader's writes of this record, from 1.
    public private(set) var beat: Int

    private var fields: RecordFields
    private static let what = "the record of the leader"

    public init(controller: KeyID, instance: GatewayInstance) {
        self.controller = controller
        self.instance = instance
        beat = 1
        fields = RecordFields(new: Self.what)
    }

    /// - Throws: `record-malformed`, `record-too-large`, `too-new`.
    public init(parsing bytes: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: bytes, Self.what)
        self.fields = fields
        controller = try fields.required(
            "controller", fields.value("controller") { Hex.decode($0).flatMap { KeyID(bytes: $0) } })
        instance = try fields.required("instance", fields.value("instance") { GatewayInstance($0) })
        beat = try fields.serial("beat")
    }

    /// - Throws: `record-too-large`.
    public func encoded() throws(FleetError) -> [UInt8] {
        var fields = fields
        fields.set("controller", controller.description)
        fields.set("instance", instance)
        fields.set("beat", beat)
        return try fields.encoded()
    }

    /// Returns the record for the next write of the same leader.
    public func nextBeat() -> LeaderRecord {
        var next = self
        next.beat += 1
        return next
    }

    /// True if both records are from the same write. If the acknowledgement of a write was lost, this comparison of the stored record with
    /// the sent record shows whether the store has accepted the write.
    public func isSameWrite(as other: LeaderRecord) -> Bool {
        controller == other.controller && instance == other.instance && beat == other.beat
    }
}
