public import BlueZ

/// The part of a device address after `ble:`: a Bluetooth address, `name=NAME`, or an empty text. The empty text selects the only device in
/// range that advertises an update service.
public enum BLEAddress: Sendable, Hashable {
    case device(BluetoothAddress)
    case name(String)
    case only

    /// Parses the text. Returns nil if the text is not a Bluetooth address, not `name=NAME`, and not empty.
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
    /// The part of the device address after `ble:`.
    public var description: String {
        switch self {
        case .device(let address): address.description
        case .name(let name): "name=" + name
        case .only: ""
        }
    }
}
