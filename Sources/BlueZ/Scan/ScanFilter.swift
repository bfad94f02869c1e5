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

    func admits(_ device: BluetoothDevice) -> Bool {
        guard let rssi = device.rssi else { return false }
        return rssi >= minimumRSSI ?? .min
            && (services.isEmpty || !services.isDisjoint(with: device.serviceUUIDs))
            && (name.map(device.isCalled) ?? true)
    }
}
