import DBus

/// The advertising data of a peripheral. An advertising packet carries 31 bytes (legacy advertising). The flags use 3 of these bytes,
/// and a 128-bit UUID uses 18 bytes. bluetoothd puts the name into the scan response, which carries another 31 bytes.
public struct Advertisement: Sendable, Hashable {
    public var serviceUUIDs: [BluetoothUUID]
    public var localName: String?
    public var serviceData: [BluetoothUUID: [UInt8]]
    /// The manufacturer data for each company identifier. The Bluetooth SIG assigns the identifiers.
    public var manufacturerData: [UInt16: [UInt8]]
    /// True to set the flag "general discoverable". Many scanners ignore an advertisement without this flag.
    public var isDiscoverable: Bool
    /// The range of the advertising interval. The adapter chooses an interval in this range. The bounds must be between 20 ms and
    /// 10.24 s (legacy advertising), and are rounded to milliseconds. Without a range, the kernel uses its default, 1.28 s.
    public var interval: ClosedRange<Duration>?
    /// The requested transmit power in dBm, from −127 to 20. An adapter without extended advertising ignores the request. If it is
    /// nil, the adapter uses its default.
    public var transmitPower: Int?

    public init(
        serviceUUIDs: [BluetoothUUID], localName: String? = nil, serviceData: [BluetoothUUID: [UInt8]] = [:],
        manufacturerData: [UInt16: [UInt8]] = [:], isDiscoverable: Bool = true,
        interval: ClosedRange<Duration>? = nil, transmitPower: Int? = nil
    ) {
        self.serviceUUIDs = serviceUUIDs
        self.localName = localName
        self.serviceData = serviceData
        self.manufacturerData = manufacturerData
        self.isDiscoverable = isDiscoverable
        self.interval = interval
        self.transmitPower = transmitPower
    }
}

extension Advertisement {
    /// Returns the D-Bus interface of the advertisement (BlueZ, `doc/advertising-api.txt`).
    func interface(_ methods: [DBusMethod]) -> DBusInterface {
        let properties = properties.map { DBusProperty($0, $1, announcing: .constant) }
        return DBusInterface(BlueZName.advertisement, methods: methods, properties: properties)
    }

    private var properties: [String: DBusValue] {
        var properties: [String: DBusValue] = [
            "Type": "peripheral",
            "ServiceUUIDs": .strings(serviceUUIDs.map(\.description)),
            "Discoverable": .boolean(isDiscoverable),
        ]
        if let localName { properties["LocalName"] = .string(localName) }
        if !serviceData.isEmpty {
            properties["ServiceData"] = Self.data(.string, serviceData) { .string($0.description) }
        }
        if !manufacturerData.isEmpty {
            properties["ManufacturerData"] = Self.data(.uint16, manufacturerData) { .uint16($0) }
        }
        if let interval {
            properties["MinInterval"] = .uint32(Self.milliseconds(interval.lowerBound))
            properties["MaxInterval"] = .uint32(Self.milliseconds(interval.upperBound))
        }
        if let transmitPower { properties["TxPower"] = .int16(Int16(clamping: transmitPower)) }
        return properties
    }

    /// Returns the duration in milliseconds, rounded to a whole number, and limited to the range of `UInt32`.
    private static func milliseconds(_ duration: Duration) -> UInt32 {
        UInt32(min(max(0, (duration / .milliseconds(1)).rounded()), Double(UInt32.max)))
    }

    private static func data<Key>(
        _ type: DBusType, _ data: [Key: [UInt8]], _ key: (Key) -> DBusValue
    ) -> DBusValue {
        let entries = data.map { (key($0), DBusValue.variant(.bytes($1))) }
        return .dictionary(key: type, value: .variant, Dictionary(entries) { _, last in last })
    }
}
