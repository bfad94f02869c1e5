/// Which device is meant.
public enum DeviceTarget: Sendable, Hashable {
    case address(BluetoothAddress)
    /// The one device in reach that calls itself so, or is called so on this machine.
    case name(String)
    /// The one device in reach that advertises this service.
    case only(service: BluetoothUUID)

    func matches(_ device: BluetoothDevice) -> Bool {
        switch self {
        case .address(let address): device.address == address
        case .name(let name): device.isCalled(name)
        case .only(let service): device.serviceUUIDs.contains(service)
        }
    }
}

extension DeviceTarget: CustomStringConvertible {
    public var description: String {
        switch self {
        case .address(let address): address.description
        case .name(let name): "a device named “\(name)”"
        case .only(let service): "a device with the service \(service)"
        }
    }
}
