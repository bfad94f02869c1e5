package import DBus

/// A service of a connected device.
public struct GATTService: Sendable, Hashable {
    public let uuid: BluetoothUUID
    public let isPrimary: Bool
    public let characteristics: [GATTCharacteristic]
}

/// A characteristic of a connected device.
public struct GATTCharacteristic: Sendable, Hashable {
    /// The operations that the characteristic properties permit (Core Specification, Vol 3, Part G, 3.3.1.1).
    public enum Operation: String, Sendable, CaseIterable {
        case read
        case write
        case writeWithoutResponse = "write-without-response"
        case notify
        case indicate
    }

    package let path: DBusObjectPath
    public let uuid: BluetoothUUID
    public let service: BluetoothUUID
    public let operations: Set<Operation>
}

extension ObjectTree {
    /// Returns the attribute table of a device, in the order of its handles.
    package func table(of device: DBusObjectPath) -> [GATTService] {
        services(of: device).map { service in
            GATTService(
                uuid: service.uuid, isPrimary: service.isPrimary,
                characteristics: characteristics(of: service.path).map { characteristic in
                    GATTCharacteristic(
                        path: characteristic.path, uuid: characteristic.uuid, service: service.uuid,
                        operations: Set(characteristic.flags.compactMap { GATTCharacteristic.Operation(rawValue: $0) }))
                })
        }
    }

    /// The MTU in bytes. Nil if bluetoothd does not report it. Every characteristic reports the same value: the MTU of the
    /// link.
    package func mtu(of device: DBusObjectPath) -> Int? {
        services(of: device).flatMap { characteristics(of: $0.path) }.lazy.compactMap(\.mtu).first
    }
}
