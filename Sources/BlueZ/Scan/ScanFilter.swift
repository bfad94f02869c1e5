/// A filter for the devices of a scan. A device must match all conditions that are set.
public struct ScanFilter: Sendable, Hashable {
    /// The services. A device must advertise one of them. Empty: every device matches.
    public var services: Set<BluetoothUUID>
    /// The minimum signal strength in dBm. Weaker devices are omitted.
    public var minimumRSSI: Int?
    public var name: String?

    public init(services: Set<BluetoothUUID> = [], minimumRSSI: Int? = nil, name: String? = nil) {
        self.services = services
        self.minimumRSSI = minimumRSSI
        self.name = name
    }

    /// Whether the device matches. A device that matched before is omitted only if its signal is too weak: after a
    /// connection during the scan, bluetoothd uses the name from the GAP service, which can differ from the advertised
    /// name.
    func admits(_ device: BluetoothDevice, known: Bool) -> Bool {
        guard let rssi = device.rssi, rssi >= minimumRSSI ?? .min else { return false }
        return known
            || (services.isEmpty || !services.isDisjoint(with: device.serviceUUIDs))
                && (name.map(device.isCalled) ?? true)
    }
}
