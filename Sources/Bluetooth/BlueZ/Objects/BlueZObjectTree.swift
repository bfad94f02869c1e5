package import DBus

/// A copy of bluetoothd's objects, as a value type. `apply` updates the copy with the changes that bluetoothd reports.
///
/// The reported data is not trusted. The tree omits an object that does not match its interface, and ignores a change that would make
/// an object invalid. In both cases, `apply` returns a description of the malformed object for the log.
package struct BlueZObjectTree: Sendable, Equatable {
    private typealias Properties = [String: DBusValue]

    /// Whether bluetoothd is running.
    package private(set) var isServiceRunning = false
    /// A number that increases each time bluetoothd stops. The objects of an earlier generation are invalid, even if a new object has
    /// the same path.
    package private(set) var generation = 0
    package private(set) var adapters: [DBusObjectPath: BluetoothAdapter] = [:]
    package private(set) var devices: [DBusObjectPath: BluetoothDevice] = [:]
    package private(set) var services: [DBusObjectPath: ServiceRecord] = [:]
    package private(set) var characteristics: [DBusObjectPath: CharacteristicRecord] = [:]
    private var objects: [DBusObjectPath: [String: Properties]] = [:]
    private var endedLinks: [DBusObjectPath: Int] = [:]

    package init() {}

    /// Applies a change. Returns the malformed objects.
    package mutating func apply(_ change: DBusObjectChange) -> [MalformedObject] {
        switch change {
        case .snapshot(let objects):
            let before = devices
            removeAll()
            isServiceRunning = true
            let malformed = objects.flatMap { add($0, $1) }
            for device in before.values { noteEnd(of: device) }
            return malformed
        case .added(let path, let interfaces): return add(path, interfaces)
        case .removed(let path, let interfaces):
            for interface in interfaces { remove(path, interface) }
            return []
        case .changed(let change):
            guard var properties = objects[change.path]?[change.interface] else { return [] }
            properties.merge(change.changed) { _, new in new }
            for name in change.invalidated { properties[name] = nil }
            return set(change.path, change.interface, properties).map { [$0] } ?? []
        case .serviceLost:
            removeAll()
            isServiceRunning = false
            generation += 1
            return []
        }
    }

    private mutating func removeAll() {
        adapters = [:]
        devices = [:]
        services = [:]
        characteristics = [:]
        objects = [:]
    }

    private mutating func add(_ path: DBusObjectPath, _ interfaces: [String: Properties]) -> [MalformedObject] {
        interfaces.compactMap { set(path, $0, $1) }
    }

    private mutating func set(
        _ path: DBusObjectPath, _ interface: String, _ properties: Properties
    ) -> MalformedObject? {
        let reader = PropertyReader(path: path, interface: interface, properties: properties)
        do throws(MalformedObject) {
            switch interface {
            case BlueZName.adapter: adapters[path] = try BluetoothAdapter(path, reader)
            case BlueZName.device:
                let before = devices[path]
                devices[path] = try BluetoothDevice(path, reader)
                noteEnd(of: before)
            case BlueZName.gattService: services[path] = try ServiceRecord(path, reader)
            case BlueZName.gattCharacteristic: characteristics[path] = try CharacteristicRecord(path, reader)
            default: return nil
            }
        } catch {
            return error
        }
        objects[path, default: [:]][interface] = properties
        return nil
    }

    private mutating func remove(_ path: DBusObjectPath, _ interface: String) {
        switch interface {
        case BlueZName.adapter: adapters[path] = nil
        case BlueZName.device: noteEnd(of: devices.removeValue(forKey: path))
        case BlueZName.gattService: services[path] = nil
        case BlueZName.gattCharacteristic: characteristics[path] = nil
        default: return
        }
        objects[path]?[interface] = nil
        if objects[path]?.isEmpty == true { objects[path] = nil }
    }

    private mutating func noteEnd(of before: BluetoothDevice?) {
        guard let before, before.isConnected, devices[before.path]?.isConnected != true else { return }
        endedLinks[before.path, default: 0] += 1
    }

    /// Returns the number of ended links to the device.
    package func endedLinks(of device: DBusObjectPath) -> Int { endedLinks[device] ?? 0 }

    /// Returns whether one particular link to the device is still connected. The parameter `endedLinks` identifies the link: it is
    /// the value of `endedLinks(of:)` during this link. If that value has changed, the link has ended, even if the device is
    /// connected again.
    package func isConnected(_ device: DBusObjectPath, since endedLinks: Int) -> Bool {
        devices[device]?.isConnected == true && self.endedLinks(of: device) == endedLinks
    }
}

/// Relations between the objects.
extension BlueZObjectTree {
    /// The adapters in the order of their numbers: hci2 before hci10.
    package var adapterList: [BluetoothAdapter] {
        adapters.values.sorted { ($0.name.utf8.count, $0.name) < ($1.name.utf8.count, $1.name) }
    }

    package func adapter(named name: String) -> BluetoothAdapter? { adapters.values.first { $0.name == name } }

    package func devices(of adapter: DBusObjectPath) -> [BluetoothDevice] {
        devices.values.filter { $0.adapter == adapter }.sorted { $0.path < $1.path }
    }

    package func services(of device: DBusObjectPath) -> [ServiceRecord] {
        services.values.filter { $0.device == device }.sorted { $0.path < $1.path }
    }

    package func characteristics(of service: DBusObjectPath) -> [CharacteristicRecord] {
        characteristics.values.filter { $0.service == service }.sorted { $0.path < $1.path }
    }
}

/// A GATT service of a device.
package struct ServiceRecord: Sendable, Equatable {
    package let path: DBusObjectPath
    package let device: DBusObjectPath
    package let uuid: BluetoothUUID
    package let isPrimary: Bool

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        device = try properties.require("Device", \.objectPath)
        uuid = try properties.require("UUID", PropertyReader.uuid)
        isPrimary = try properties.read("Primary", \.boolean) ?? true
    }
}

/// A GATT characteristic of a service.
package struct CharacteristicRecord: Sendable, Equatable {
    package let path: DBusObjectPath
    package let service: DBusObjectPath
    package let uuid: BluetoothUUID
    package let flags: Set<String>
    /// The MTU in bytes; nil if bluetoothd does not report it, because the device is not connected or bluetoothd is too old.
    package let mtu: Int?

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        service = try properties.require("Service", \.objectPath)
        uuid = try properties.require("UUID", PropertyReader.uuid)
        flags = Set(try properties.read("Flags", \.strings) ?? [])
        mtu = try properties.read("MTU", \.uint16).map { Int($0) }
    }
}
