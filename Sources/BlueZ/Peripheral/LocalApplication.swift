import DBus

/// The objects that stand for services and characteristics on the bus.
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

    /// Has the ObjectManager that bluetoothd asks.
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

    /// Of a fixed width: bluetoothd gives handles in the order of the paths.
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
    /// - Parameter service: the path of the service it belongs to.
    func interface(of service: DBusObjectPath, _ methods: [DBusMethod]) -> DBusInterface {
        var properties = [
            DBusProperty("UUID", .string(attribute.characteristic.description), announcing: .constant),
            DBusProperty("Service", .objectPath(service), announcing: .constant),
            DBusProperty("Flags", .strings(declaration.flags), announcing: .constant),
            // Its changes are the notifications.
            DBusProperty("Value", .bytes([])),
        ]
        // That they are there is what makes bluetoothd ask for a socket.
        if declaration.sockets.contains(.write) { properties.append(DBusProperty("WriteAcquired", false)) }
        if declaration.sockets.contains(.notify) { properties.append(DBusProperty("NotifyAcquired", false)) }
        return DBusInterface(BlueZName.gattCharacteristic, methods: methods, properties: properties)
    }
}
