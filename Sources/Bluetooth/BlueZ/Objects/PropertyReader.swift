package import DBus

/// An object that does not match the definition of its interface.
package struct MalformedObject: Error, Equatable {
    package let path: DBusObjectPath
    package let interface: String
    /// A description of the fault for the log.
    package let reason: String
}

/// Reads the properties of one interface. A property with the wrong type is always an error. A missing property is an error for
/// `require`, and nil for `read`.
struct PropertyReader {
    let path: DBusObjectPath
    let interface: String
    let properties: [String: DBusValue]

    func require<Content>(
        _ name: String, _ content: (DBusValue) -> Content?
    ) throws(MalformedObject) -> Content {
        guard let found = try read(name, content) else { throw malformed("\(name) is missing") }
        return found
    }

    func read<Content>(_ name: String, _ content: (DBusValue) -> Content?) throws(MalformedObject) -> Content? {
        guard let value = properties[name] else { return nil }
        guard let found = content(value) else { throw malformed("\(name) has the wrong type or a malformed value") }
        return found
    }

    private func malformed(_ reason: String) -> MalformedObject {
        MalformedObject(path: path, interface: interface, reason: reason)
    }

    static func address(_ value: DBusValue) -> BluetoothAddress? { value.string.flatMap { BluetoothAddress($0) } }

    static func uuid(_ value: DBusValue) -> BluetoothUUID? { value.string.flatMap { BluetoothUUID($0) } }

    static func uuids(_ value: DBusValue) -> [BluetoothUUID]? {
        guard let texts = value.strings else { return nil }
        let uuids = texts.compactMap { BluetoothUUID($0) }
        return uuids.count == texts.count ? uuids : nil
    }

    static func serviceData(_ value: DBusValue) -> [BluetoothUUID: [UInt8]]? {
        data(value) { uuid($0) }
    }

    static func manufacturerData(_ value: DBusValue) -> [UInt16: [UInt8]]? {
        data(value) { $0.uint16 }
    }

    private static func data<Key: Hashable>(
        _ value: DBusValue, _ key: (DBusValue) -> Key?
    ) -> [Key: [UInt8]]? {
        guard let entries = value.dictionary else { return nil }
        var found: [Key: [UInt8]] = [:]
        for (name, bytes) in entries {
            guard let name = key(name), let bytes = bytes.bytes else { return nil }
            found[name] = bytes
        }
        return found
    }
}

/// The D-Bus names of BlueZ (BlueZ, `doc/*-api.txt`).
package enum BlueZName {
    package static let service = "org.bluez"
    package static let root: DBusObjectPath = "/"
    package static let daemon: DBusObjectPath = "/org/bluez"
    package static let adapter = "org.bluez.Adapter1"
    package static let device = "org.bluez.Device1"
    package static let gattService = "org.bluez.GattService1"
    package static let gattCharacteristic = "org.bluez.GattCharacteristic1"
    package static let agent = "org.bluez.Agent1"
    package static let agentManager = "org.bluez.AgentManager1"
    package static let objectManager = "org.freedesktop.DBus.ObjectManager"
    package static let properties = "org.freedesktop.DBus.Properties"
}

extension BlueZName {
    package static let gattManager = "org.bluez.GattManager1"
    package static let advertisingManager = "org.bluez.LEAdvertisingManager1"
    package static let advertisement = "org.bluez.LEAdvertisement1"
}
