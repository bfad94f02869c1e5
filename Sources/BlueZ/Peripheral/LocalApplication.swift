import DBus

/// The D-Bus objects of the services and characteristics.
struct LocalApplication: Sendable {
    struct Service: Sendable {
        let path: DBusObjectPath
        let uuid: BluetoothUUID
        let characteristics: [Characteristic]
    }

    struct Characteristic: Sendable {
        let path: DBusObjectPath
        let attribute: LocalAttribute
        let declaration: LocalCharacteristic
    }

    /// The path of the object with the ObjectManager that bluetoothd calls.
    let root: DBusObjectPath
    let services: [Service]

    init(root: DBusObjectPath, _ services: [LocalService]) {
        self.root = root
        self.services = services.enumerated().map { index, service in
            let path = root.appending("service" + Self.ordinal(index))
            let characteristics = service.characteristics.enumerated().map { index, characteristic in
                Characteristic(
                    path: path.appending("characteristic" + Self.ordinal(index)),
                    attribute: LocalAttribute(service.uuid, characteristic.uuid), declaration: characteristic)
            }
            return Service(path: path, uuid: service.uuid, characteristics: characteristics)
        }
    }

    /// Returns a number with a fixed width. bluetoothd assigns handles in the order of the paths.
    private static func ordinal(_ index: Int) -> String {
        let digits = String(index)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    func path(of attribute: LocalAttribute) -> DBusObjectPath? {
        services.lazy.flatMap(\.characteristics).first { $0.attribute == attribute }?.path
    }
}

extension LocalApplication.Service {
    var interface: DBusInterface {
        DBusInterface(
            BlueZName.gattService,
            properties: [
                DBusProperty("UUID", .string(uuid.description), announcing: .constant),
                DBusProperty("Primary", true, announcing: .constant),
            ])
    }
}

extension LocalApplication.Characteristic {
    /// Returns the D-Bus interface of the characteristic.
    ///
    /// - Parameter service: the path of its service.
    func interface(of service: DBusObjectPath, _ methods: [DBusMethod]) -> DBusInterface {
        var properties = [
            DBusProperty("UUID", .string(attribute.characteristic.description), announcing: .constant),
            DBusProperty("Service", .objectPath(service), announcing: .constant),
            DBusProperty("Flags", .strings(declaration.flags), announcing: .constant),
            // Changes of this property are the notifications.
            DBusProperty("Value", .bytes([])),
        ]
        // If this property exists, bluetoothd asks for a socket.
        if declaration.sockets.contains(.write) { properties.append(DBusProperty("WriteAcquired", false)) }
        if declaration.sockets.contains(.notify) { properties.append(DBusProperty("NotifyAcquired", false)) }
        return DBusInterface(BlueZName.gattCharacteristic, methods: methods, properties: properties)
    }
}
