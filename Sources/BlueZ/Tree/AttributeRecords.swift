package import DBus

/// A GATT service of a device.
package struct ServiceRecord: Sendable, Equatable {
    package let path: DBusObjectPath
    package let device: DBusObjectPath
    package let uuid: BluetoothUUID
    package let isPrimary: Bool

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        device = try properties.require("Device", \.objectPath)
        uuid = try properties.require("UUID", PropertyReader.uuid)
        isPrimary = try properties.read("Primary", \.boolean) ?? true
    }
}

/// A GATT characteristic of a service.
package struct CharacteristicRecord: Sendable, Equatable {
    package let path: DBusObjectPath
    package let service: DBusObjectPath
    package let uuid: BluetoothUUID
    package let flags: Set<String>
    /// The MTU in bytes. Nil if bluetoothd does not report it, because no connection exists or its version is too old.
    package let mtu: Int?

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        service = try properties.require("Service", \.objectPath)
        uuid = try properties.require("UUID", PropertyReader.uuid)
        flags = Set(try properties.read("Flags", \.strings) ?? [])
        mtu = try properties.read("MTU", \.uint16).map { Int($0) }
    }
}
