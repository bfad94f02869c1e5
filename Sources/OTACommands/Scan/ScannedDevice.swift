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
    /// By which it can be updated: `ota`, the GATT OTA profile.
    var protocols: [String]
    /// Why it did not tell what it is.
    var unread: String?

    private enum CodingKeys: CodingKey {
        case address, name, rssi, product, version, protocols, unread
    }

    /// - Parameter service: what it is updated by.
    init(_ device: BluetoothDevice, service: BluetoothUUID) {
        address = "ble:\(device.address)"
        protocols = device.serviceUUIDs.contains(service) ? ["ota"] : []
        note(device)
    }

    mutating func note(_ device: BluetoothDevice) {
        name = device.name ?? name
        rssi = device.rssi ?? rssi
    }

    static func table(_ devices: [ScannedDevice]) -> String {
        TextTable.rows(
            ["NAME", "ADDRESS", "RSSI", "PRODUCT", "VERSION", "PROTOCOLS"],
            devices.map { device in
                [
                    (device.name ?? "–").singleLine, device.address, device.rssi.map { "\($0) dBm" } ?? "–",
                    device.product ?? "–", device.version ?? "–",
                    device.protocols.isEmpty ? "–" : device.protocols.joined(separator: ","),
                ]
            })
    }
}

extension String {
    /// A name over the air may hold anything, and a row of a table is one line.
    fileprivate var singleLine: String {
        String(map { $0.isNewline ? " " : $0 }).printable
    }
}
