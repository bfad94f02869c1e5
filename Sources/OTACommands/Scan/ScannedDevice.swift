import BlueZ

/// A device that a scan has found.
struct ScannedDevice: Encodable, Sendable, Equatable {
    /// By which it can be addressed.
    let address: String
    var name: String?
    /// dBm.
    var rssi: Int?
    /// What it told when it was connected.
    var product, version: String?
    /// By which it can be updated: the names of `UpdateProtocol`.
    var protocols: [String] = []
    /// Why it did not tell what it is.
    var unread: String?

    private enum CodingKeys: CodingKey {
        case address, name, rssi, product, version, protocols, unread
    }

    init(_ device: BluetoothDevice) {
        address = "ble:\(device.address)"
        note(device)
    }

    /// What it advertises may come in two parts.
    ///
    /// The name stays as soon as it is known what the device can be updated by: then it is connected to be read, and BlueZ puts
    /// the name that it finds in the GAP service in the place of the advertised one, by which people know the device.
    mutating func note(_ device: BluetoothDevice) {
        if name == nil || protocols.isEmpty { name = device.name ?? name }
        protocols += UpdateProtocol.advertised(by: device).map(\.rawValue).filter { !protocols.contains($0) }
        rssi = device.rssi ?? rssi
    }

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
