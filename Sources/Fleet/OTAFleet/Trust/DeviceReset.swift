public import OTAFirmware

/// An operator's statement that the earlier record of a device does not count. `otaflash device reset` signs it.
///
/// The statement is a member of the new record, and stays there when gateways write the record. It shows who has reset the device, and when.
/// A gateway needs no proof: a record without a job cannot outrank a rollout.
public struct DeviceReset: SignedPayload {
    public static let kind = SignedRecord.Kind.reset

    public let device: DeviceID
    public let at: Timestamp

    public var scopeProduct: ProductName? { nil }

    private static let what = "the reset of a device"

    public init(device: DeviceID, at: Timestamp) { (self.device, self.at) = (device, at) }

    /// - Throws: `record-malformed`, `too-new`.
    public init(payload: [UInt8]) throws(FleetError) {
        let fields = try RecordFields(parsing: payload, Self.what)
        device = try fields.required("device", fields.value("device") { DeviceID($0) })
        at = try fields.required("at", fields.value("at") { Timestamp($0) })
    }

    public func payload() throws(FleetError) -> [UInt8] {
        var fields = RecordFields(new: Self.what)
        fields.set("device", device)
        fields.set("at", at)
        return try fields.encoded()
    }
}
