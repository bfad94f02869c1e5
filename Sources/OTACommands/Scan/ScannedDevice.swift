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

    /// What it advertises may come in two parts; and once it was connected it may have another name for a while.
    mutating func note(_ device: BluetoothDevice) {
        protocols += UpdateProtocol.advertised(by: device).map(\.rawValue).filter { !protocols.contains($0) }
        name = name ?? device.name
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
