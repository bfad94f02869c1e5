/// What a peripheral tells of itself while it waits for a connection. Legacy advertising carries 31 bytes, three of them flags,
/// and a scan response of 31: a 128-bit UUID takes 18, and bluetoothd puts the name into the scan response.
public struct Advertisement: Sendable, Hashable {
    public var serviceUUIDs: [BluetoothUUID]
    public var localName: String?
    public var serviceData: [BluetoothUUID: [UInt8]]
    /// By the company identifiers that the Bluetooth SIG assigns.
    public var manufacturerData: [UInt16: [UInt8]]
    /// Sets the flag "general discoverable", without which many scanners leave a device out.
    public var isDiscoverable: Bool

    public init(
        serviceUUIDs: [BluetoothUUID], localName: String? = nil, serviceData: [BluetoothUUID: [UInt8]] = [:],
        manufacturerData: [UInt16: [UInt8]] = [:], isDiscoverable: Bool = true
    ) {
        self.serviceUUIDs = serviceUUIDs
        self.localName = localName
        self.serviceData = serviceData
        self.manufacturerData = manufacturerData
        self.isDiscoverable = isDiscoverable
    }
}
