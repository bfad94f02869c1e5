import BlueZ
import DBus

/// Objects of bluetoothd 5.66, copied from its reply to `GetManagedObjects` with one device in range.
enum Objects {
    static let adapterPath: DBusObjectPath = "/org/bluez/hci0"
    static let devicePath: DBusObjectPath = "/org/bluez/hci0/dev_00_AA_01_01_00_42"
    static let servicePath = devicePath.appending("service000a")
    static let characteristicPath = servicePath.appending("char000d")

    static let adapter: DBusObjectChange.Interfaces = [
        BlueZName.adapter: [
            "Address": "00:AA:01:00:00:42", "AddressType": "public", "Name": "radio-lab", "Alias": "radio-lab",
            "Class": .uint32(0), "Powered": true, "Discoverable": false, "Discovering": false, "Pairable": false,
            "DiscoverableTimeout": .uint32(180), "PairableTimeout": .uint32(0), "Modalias": "usb:v1D6Bp0246d0542",
            "UUIDs": .strings(["00001801-0000-1000-8000-00805f9b34fb"]), "Roles": .strings(["central", "peripheral"]),
        ]
    ]

    static let device: DBusObjectChange.Interfaces = [
        BlueZName.device: [
            "Adapter": .objectPath(adapterPath), "Address": "00:AA:01:01:00:42", "AddressType": "public",
            "Name": "Bumble", "Alias": "Bumble", "RSSI": .int16(-50), "TxPower": .int16(4), "Paired": false,
            "Bonded": false,
            "Trusted": false, "Blocked": false, "LegacyPairing": false, "Connected": false, "ServicesResolved": false,
            "UUIDs": .strings(["c7e10001-63a0-486d-9bcb-a18d79d9acd9"]),
            "ServiceData": .dictionary(
                key: .string, value: .variant, ["0000fe59-0000-1000-8000-00805f9b34fb": .variant(.bytes([1, 2]))]),
            "ManufacturerData": .dictionary(key: .uint16, value: .variant, [.uint16(0x59): .variant(.bytes([3]))]),
            "AdvertisingFlags": .bytes([6]),
        ]
    ]

    static let service: DBusObjectChange.Interfaces = [
        BlueZName.gattService: [
            "UUID": "c7e10001-63a0-486d-9bcb-a18d79d9acd9", "Device": .objectPath(devicePath), "Primary": true,
            "Includes": .objectPaths([]),
        ]
    ]

    static let characteristic: DBusObjectChange.Interfaces = [
        BlueZName.gattCharacteristic: [
            "UUID": "c7e10003-63a0-486d-9bcb-a18d79d9acd9", "Service": .objectPath(servicePath), "Value": .bytes([]),
            "Notifying": false, "Flags": .strings(["write", "notify", "extended-properties"]), "NotifyAcquired": false,
            "MTU": .uint16(517),
        ]
    ]

    static let all: [DBusObjectPath: DBusObjectChange.Interfaces] = [
        adapterPath: adapter, devicePath: device, servicePath: service, characteristicPath: characteristic,
        "/org/bluez": ["org.bluez.AgentManager1": [:]],
    ]

    static let ota = BluetoothUUID(0xc7e1_0001_63a0_486d_9bcb_a18d_79d9_acd9)
    static let control = BluetoothUUID(0xc7e1_0003_63a0_486d_9bcb_a18d_79d9_acd9)

    static func tree(_ objects: [DBusObjectPath: DBusObjectChange.Interfaces] = all) -> BlueZObjectTree {
        var tree = BlueZObjectTree()
        _ = tree.apply(.snapshot(objects))
        return tree
    }
}

extension BlueZObjectTree {
    /// Changes one property, or invalidates it if `value` is nil.
    @discardableResult
    mutating func set(_ path: DBusObjectPath, _ interface: String, _ name: String, _ value: DBusValue?)
        -> [MalformedObject]
    {
        apply(
            .changed(
                DBusPropertiesChange(
                    path: path, interface: interface, changed: value.map { [name: $0] } ?? [:],
                    invalidated: value == nil ? [name] : [])))
    }
}
