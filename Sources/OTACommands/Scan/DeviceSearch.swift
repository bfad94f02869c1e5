import BlueZ

/// What a scan is for.
struct DeviceSearch: Sendable {
    var duration: Duration
    /// dBm.
    var minimumRSSI: Int?
    var name: String?
    /// By one of which a device can be updated; none: also devices that cannot.
    var protocols: [UpdateProtocol]
    /// Whether devices are connected to find out what they are.
    var reads: Bool

    var filter: ScanFilter {
        ScanFilter(services: Set(protocols.map(\.service)), minimumRSSI: minimumRSSI, name: name)
    }
}
