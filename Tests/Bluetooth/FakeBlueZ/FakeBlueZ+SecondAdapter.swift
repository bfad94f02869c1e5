import BlueZ
import DBus
import OTASimulator
import OTAUpdate

/// A second adapter of the machine. It hears the virtual device, but cannot connect to it.
extension FakeBlueZ {
    static let secondAdapter: DBusObjectPath = "/org/bluez/hci1"

    /// - Parameter rssi: the signal strength of the virtual device at the second adapter, in dBm.
    func exportSecondAdapter(hearing rssi: Int16) async throws {
        let adapter = DBusInterface(
            BlueZName.adapter,
            methods: [
                DBusMethod("SetDiscoveryFilter", takes: [DBusArgument("filter", .properties)]) { _ throws(DBusError) in
                    []
                },
                method("StartDiscovery") { fake, _ in
                    let path = Self.secondAdapter.appending("dev_00_AA_01_01_00_42")
                    try? await fake.connection?.export(path, [fake.distantDevice(rssi)])
                    return []
                },
                method("StopDiscovery") { _, _ in [] },
            ],
            properties: [
                DBusProperty("Address", "00:AA:01:0F:00:42"), DBusProperty("Alias", "fake"),
                DBusProperty("Powered", true), DBusProperty("Discovering", false),
            ])
        try await connection?.export(Self.secondAdapter, [adapter])
    }

    private func distantDevice(_ rssi: Int16) -> DBusInterface {
        DBusInterface(
            BlueZName.device,
            methods: [
                method("Connect") { _, _ in throw DBusError.bluez("Failed", "le-connection-abort-by-local") }
            ],
            properties: [
                DBusProperty("Adapter", .objectPath(Self.secondAdapter)),
                DBusProperty("Address", .string(Self.address)), DBusProperty("AddressType", "public"),
                DBusProperty("Name", .string(name)), DBusProperty("Alias", .string(name)),
                DBusProperty("Paired", false), DBusProperty("Connected", false),
                DBusProperty("ServicesResolved", false), DBusProperty("RSSI", .int16(rssi)),
                DBusProperty("UUIDs", .strings([BluetoothUUID(peripheral.dataChannel.service).description])),
            ])
    }
}
