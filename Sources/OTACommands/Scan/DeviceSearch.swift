import BlueZ

/// What a scan is for.
struct DeviceSearch: Sendable {
    var duration: Duration
    /// dBm.
    var minimumRSSI: Int?
    var name: String?
    /// Also devices that cannot be updated.
    var isForAll: Bool
    /// Whether devices are connected to find out what they are.
    var reads: Bool

    var filter: ScanFilter {
        ScanFilter(services: isForAll ? [] : [ScannedDevice.service], minimumRSSI: minimumRSSI, name: name)
    }
}
