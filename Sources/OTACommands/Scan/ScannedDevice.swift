import BlueZ
import OTAUpdate

/// A device that a scan has found.
struct ScannedDevice: Encodable, Sendable, Equatable {
    /// The address for `--device`.
    let address: String
    var name: String?
    /// The signal strength in dBm.
    var rssi: Int?
    /// Read over a connection; nil if not read.
    var product, version: String?
    /// The update protocols of the device: raw values of `UpdateProtocol`.
    var protocols: [String] = []
    /// The reason why product and version were not read.
    var unread: String?

    private enum CodingKeys: CodingKey {
        case address, name, rssi, product, version, protocols, unread
    }

    init(_ device: BluetoothDevice) {
        address = "ble:\(device.address)"
        note(device)
    }

    /// Merges new advertising data: it can arrive in two parts.
    ///
    /// The name no longer changes after the first update protocol is known. From then on the scan connects to the device, and
    /// BlueZ replaces the advertised name with the name from the GAP service. Users know the advertised name.
    mutating func note(_ device: BluetoothDevice) {
        if name == nil || protocols.isEmpty { name = device.name ?? name }
        protocols += UpdateProtocol.advertised(by: device).map(\.rawValue).filter { !protocols.contains($0) }
        rssi = device.rssi ?? rssi
    }

    /// The devices as a table for people.
    static func table(_ devices: [ScannedDevice]) -> [TerminalLine] {
        TextTable.rows(
            ["NAME", "ADDRESS", "RSSI", "PRODUCT", "VERSION", "PROTOCOLS"],
            devices.map { device in
                [
                    device.name ?? "–", device.address, device.rssi.map { "\($0) dBm" } ?? "–",
                    device.product ?? "–", device.version ?? "–",
                    device.protocols.isEmpty ? "–" : device.protocols.joined(separator: ","),
                ]
            })
    }
}
