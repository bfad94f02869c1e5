package import DBus

/// A remote device, as bluetoothd reports it: the advertised data, and the state of the device on this machine.
public struct BluetoothDevice: Sendable, Equatable {
    package let path: DBusObjectPath
    package let adapter: DBusObjectPath
    public let address: BluetoothAddress
    public let addressKind: BluetoothAddress.Kind
    /// The device's own name. Before the first connection, this is the advertised name. After a connection, this is the name in the
    /// GAP service. The two names may differ.
    public let name: String?
    /// The device's name on this machine. If no user has set an alias, the alias equals `name`.
    public let alias: String?
    /// The signal strength in dBm. bluetoothd clears the value at the end of each scan. The value is nil if bluetoothd has received
    /// no packet from the device since then.
    public let rssi: Int?
    /// The transmit power in dBm, as the device reports it.
    public let transmitPower: Int?
    /// The advertised services. After the service discovery, the set contains all services of the device.
    public let serviceUUIDs: Set<BluetoothUUID>
    public let serviceData: [BluetoothUUID: [UInt8]]
    /// The manufacturer data for each company identifier. The Bluetooth SIG assigns the identifiers.
    public let manufacturerData: [UInt16: [UInt8]]
    public let isConnected: Bool
    public let isPaired: Bool
    /// True if bluetoothd has the device's attribute table, even if the table is from an earlier connection.
    public let areServicesResolved: Bool

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        adapter = try properties.require("Adapter", \.objectPath)
        address = try properties.require("Address", PropertyReader.address)
        addressKind =
            try properties.read("AddressType") { $0.string.flatMap { BluetoothAddress.Kind(rawValue: $0) } } ?? .public
        name = try properties.read("Name", \.string)
        alias = try properties.read("Alias", \.string)
        rssi = try properties.read("RSSI", \.int16).map { Int($0) }
        transmitPower = try properties.read("TxPower", \.int16).map { Int($0) }
        serviceUUIDs = Set(try properties.read("UUIDs", PropertyReader.uuids) ?? [])
        serviceData = try properties.read("ServiceData", PropertyReader.serviceData) ?? [:]
        manufacturerData = try properties.read("ManufacturerData", PropertyReader.manufacturerData) ?? [:]
        isConnected = try properties.read("Connected", \.boolean) ?? false
        isPaired = try properties.read("Paired", \.boolean) ?? false
        areServicesResolved = try properties.read("ServicesResolved", \.boolean) ?? false
    }

    /// The name of the adapter, such as `hci0`.
    package var adapterName: String { adapter.lastElement }

    /// True if the device is connected or has a signal strength. bluetoothd reports a signal strength only during a scan.
    var isInRange: Bool { rssi != nil || isConnected }

    /// Whether `name` is the device's own name or its alias on this machine.
    func isCalled(_ name: String) -> Bool { self.name == name || alias == name }
}
