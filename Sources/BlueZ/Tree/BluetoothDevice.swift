package import DBus

/// A remote device, as bluetoothd tells it: what it advertises, and what it is to this machine.
public struct BluetoothDevice: Sendable, Equatable {
    package let path: DBusObjectPath
    package let adapter: DBusObjectPath
    public let address: BluetoothAddress
    public let addressKind: BluetoothAddress.Kind
    /// What the device calls itself: in its advertisement, and from a connection on in its GAP service, which may differ.
    public let name: String?
    /// What it is called on this machine: the same, unless a person has given it another name.
    public let alias: String?
    /// dBm; nil: nothing was heard of it since the last scan ended.
    public let rssi: Int?
    /// dBm, as the device claims.
    public let transmitPower: Int?
    /// What it advertises; once its services are resolved, what it has.
    public let serviceUUIDs: Set<BluetoothUUID>
    public let serviceData: [BluetoothUUID: [UInt8]]
    /// By the company identifiers that the Bluetooth SIG assigns.
    public let manufacturerData: [UInt16: [UInt8]]
    public let isConnected: Bool
    public let isPaired: Bool
    /// Whether bluetoothd has its table of attributes; true also for one it kept from an earlier connection.
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

    func isCalled(_ name: String) -> Bool { self.name == name || alias == name }
}
