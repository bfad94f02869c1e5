import DBus

extension Advertisement {
    /// Returns the D-Bus interface (BlueZ, `doc/advertising-api.txt`).
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
        return properties
    }

    private static func data<Key>(
        _ type: DBusType, _ data: [Key: [UInt8]], _ key: (Key) -> DBusValue
    ) -> DBusValue {
        let entries = data.map { (key($0), DBusValue.variant(.bytes($1))) }
        return .dictionary(key: type, value: .variant, Dictionary(entries) { _, last in last })
    }
}
