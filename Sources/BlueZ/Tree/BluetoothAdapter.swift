package import DBus

/// A Bluetooth controller of this machine, as bluetoothd reports it.
public struct BluetoothAdapter: Sendable, Equatable {
    package let path: DBusObjectPath
    public let address: BluetoothAddress
    /// The name under which other devices see this machine over this adapter.
    public let alias: String
    public let isPowered: Bool
    public let isDiscovering: Bool

    /// The adapter's name, such as `hci0`.
    public var name: String { path.lastElement }

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        address = try properties.require("Address", PropertyReader.address)
        alias = try properties.read("Alias", \.string) ?? ""
        isPowered = try properties.read("Powered", \.boolean) ?? false
        isDiscovering = try properties.read("Discovering", \.boolean) ?? false
    }
}
