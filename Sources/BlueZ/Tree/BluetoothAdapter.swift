package import DBus

/// A Bluetooth controller of this machine, as bluetoothd tells it.
public struct BluetoothAdapter: Sendable, Equatable {
    package let path: DBusObjectPath
    public let address: BluetoothAddress
    /// How the machine calls itself over it.
    public let alias: String
    public let isPowered: Bool
    public let isDiscovering: Bool

    /// `hci0`.
    public var name: String { path.lastElement }

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        address = try properties.require("Address", PropertyReader.address)
        alias = try properties.read("Alias", \.string) ?? ""
        isPowered = try properties.read("Powered", \.boolean) ?? false
        isDiscovering = try properties.read("Discovering", \.boolean) ?? false
    }
}
