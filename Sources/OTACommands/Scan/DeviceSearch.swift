import BlueZ
import OTAUpdate

/// The parameters of a scan.
struct DeviceSearch: Sendable {
    var duration: Duration
    /// The minimum signal strength in dBm; nil: any.
    var minimumRSSI: Int?
    var name: String?
    /// The update protocols of the wanted devices; empty: all devices, also those that cannot be updated.
    var protocols: [UpdateProtocol]
    /// True if the scan connects to devices to read product and version.
    var reads: Bool

    var filter: ScanFilter {
        ScanFilter(services: Set(protocols.map(\.service)), minimumRSSI: minimumRSSI, name: name)
    }
}
