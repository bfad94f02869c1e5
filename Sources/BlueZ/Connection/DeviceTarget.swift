/// Selects the device to connect.
public enum DeviceTarget: Sendable, Hashable {
    case address(BluetoothAddress)
    /// The only device in range with this name. The name is the device's own name, or its alias on this machine.
    case name(String)
    /// The only device in range that advertises one of these services.
    case only(services: Set<BluetoothUUID>)

    public static func only(service: BluetoothUUID) -> DeviceTarget { .only(services: [service]) }

    func matches(_ device: BluetoothDevice) -> Bool {
        switch self {
        case .address(let address): device.address == address
        case .name(let name): device.isCalled(name)
        case .only(let services): !services.isDisjoint(with: device.serviceUUIDs)
        }
    }
}

extension DeviceTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .address(let address): address.description
        case .name(let name): "a device named “\(name)”"
        case .only(let services):
            "a device with the service \(services.map(\.description).sorted().joined(separator: " or "))"
        }
    }
}
