import OTAUpdate

/// What became of a task.
struct DeviceOutcome: Sendable {
    var report: UpdateReport
    var updateProtocol: UpdateProtocol
    /// By which the device can be addressed again.
    var address: String
    /// What the device is called, where it has a name.
    var name: String?
    /// What the link could have carried without loss, in bytes per second, where that is known.
    var linkBound: Double?
}
