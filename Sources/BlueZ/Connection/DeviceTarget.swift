/// Which device is meant.
public enum DeviceTarget: Sendable, Hashable {
    case address(BluetoothAddress)
    /// The one device in reach that calls itself so, or is called so on this machine.
    case name(String)
    /// The one device in reach that advertises one of these services.
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
