/// The advertising data of a peripheral. Legacy advertising carries 31 bytes, of which the flags use three, and a scan
/// response of 31 bytes. A 128-bit UUID uses 18 bytes. bluetoothd puts the name into the scan response.
public struct Advertisement: Sendable, Hashable {
    public var serviceUUIDs: [BluetoothUUID]
    public var localName: String?
    public var serviceData: [BluetoothUUID: [UInt8]]
    /// The manufacturer data, by company identifier (assigned by the Bluetooth SIG).
    public var manufacturerData: [UInt16: [UInt8]]
    /// Whether to set the flag "general discoverable". Many scanners ignore devices without this flag.
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
