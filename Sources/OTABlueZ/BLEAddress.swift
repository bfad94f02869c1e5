public import BlueZ

/// What stands behind `ble:` in a device address: an address, `name=NAME`, or nothing, for the one device in reach.
public enum BLEAddress: Sendable, Hashable {
    case device(BluetoothAddress)
    case name(String)
    case only

    /// Nil unless it is one of the three.
    public init?(_ text: some StringProtocol) {
        if text.isEmpty {
            self = .only
        } else if text.hasPrefix("name="), text.count > 5 {
            self = .name(String(text.dropFirst(5)))
        } else if let address = BluetoothAddress(text) {
            self = .device(address)
        } else {
            return nil
        }
    }

    package func target(services: Set<BluetoothUUID>) -> DeviceTarget {
        switch self {
        case .device(let address): .address(address)
        case .name(let name): .name(name)
        case .only: .only(services: services)
        }
    }
}

extension BLEAddress: CustomStringConvertible {
    /// As it is written behind `ble:`.
    public var description: String {
        switch self {
        case .device(let address): address.description
        case .name(let name): "name=" + name
        case .only: ""
        }
    }
}
