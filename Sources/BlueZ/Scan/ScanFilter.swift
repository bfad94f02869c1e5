/// Which devices a scan is about. All that is given must hold.
public struct ScanFilter: Sendable, Hashable {
    /// A device must advertise one of these; none: every device.
    public var services: Set<BluetoothUUID>
    /// dBm: a device that comes in weaker is left out.
    public var minimumRSSI: Int?
    public var name: String?

    public init(services: Set<BluetoothUUID> = [], minimumRSSI: Int? = nil, name: String? = nil) {
        self.services = services
        self.minimumRSSI = minimumRSSI
        self.name = name
    }

    /// What was admitted once is left out only for its strength: a device that is connected while the scan goes on is called by the
    /// name in its GAP service from then on, though it advertises another.
    func admits(_ device: BluetoothDevice, known: Bool) -> Bool {
        guard let rssi = device.rssi, rssi >= minimumRSSI ?? .min else { return false }
        return known
            || (services.isEmpty || !services.isDisjoint(with: device.serviceUUIDs))
                && (name.map(device.isCalled) ?? true)
    }
}
