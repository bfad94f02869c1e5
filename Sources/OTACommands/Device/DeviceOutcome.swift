import OTAUpdate

/// The result of a `DeviceTask`.
struct DeviceOutcome: Sendable {
    var report: UpdateReport
    var updateProtocol: UpdateProtocol
    /// The address for the next command, such as `ble:AA:BB:CC:DD:EE:FF`.
    var address: String
    /// The name of the device; nil: it has none.
    var name: String?
    /// The highest possible rate of the link without loss, in bytes per second; nil: unknown.
    var linkBound: Double?
}
