import DBus

/// A GATT service that this machine offers.
public struct LocalService: Sendable, Hashable {
    public var uuid: BluetoothUUID
    public var characteristics: [LocalCharacteristic]

    public init(_ uuid: BluetoothUUID, _ characteristics: [LocalCharacteristic]) {
        self.uuid = uuid
        self.characteristics = characteristics
    }
}

/// A characteristic of a `LocalService`.
public struct LocalCharacteristic: Sendable, Hashable {
    public enum Operation: Sendable, Hashable, CaseIterable {
        case read, write, writeWithoutResponse, notify, indicate
    }

    /// The link security that the operations of a characteristic require. If the link is less secure, bluetoothd refuses the
    /// operation, and this program gets no event.
    public enum Protection: Sendable, Hashable, CaseIterable {
        case none
        case encrypted
        /// Encryption with an authenticated key. A person has entered a passkey or compared numbers during pairing.
        case authenticated
    }

    /// An operation whose values go through a packet socket between bluetoothd and this program, and not through D-Bus messages. The
    /// socket belongs to the characteristic, not to a connection: bluetoothd uses one socket for all centrals, and keeps the socket
    /// after a disconnection.
    public enum Socket: Sendable, Hashable, CaseIterable {
        /// Writes through a socket. Do not use a socket for values that must arrive complete and in order, because a socket has two
        /// faults:
        ///
        /// - bluetoothd asks this program for the socket when the first write arrives. If another write arrives before this program
        ///   has replied, bluetoothd asks again. After each reply, BlueZ 5.66 writes the current content of its buffer to the socket,
        ///   and not the value of the write that caused the request. The content can be the value of a later write. In a test with
        ///   five chunks, the first four arrived as copies of the fifth.
        /// - The order between values in the socket and D-Bus messages is undefined.
        ///
        /// D-Bus messages do not have these faults. Their throughput is much higher than the throughput of any Bluetooth LE link.
        case write
        /// Notifications through a socket. A socket saves one D-Bus message per notification. The order between these notifications
        /// and the notifications of other characteristics is undefined.
        case notify
    }

    public var uuid: BluetoothUUID
    public var operations: Set<Operation>
    public var protection: Protection
    public var sockets: Set<Socket>

    public init(
        _ uuid: BluetoothUUID, _ operations: Set<Operation>, protection: Protection = .none, sockets: Set<Socket> = []
    ) {
        self.uuid = uuid
        self.operations = operations
        self.protection = protection
        self.sockets = sockets
    }

    /// The flags of the characteristic for `GattCharacteristic1.Flags` (BlueZ, `doc/gatt-api.txt`). BlueZ has no flag for a protected
    /// write without response. Therefore a protected characteristic with this operation also gets the flag of the protected write
    /// with response.
    fileprivate var flags: [String] {
        let protected =
            switch protection {
            case .none: ""
            case .encrypted: "encrypt-"
            case .authenticated: "encrypt-authenticated-"
            }
        var flags: Set<String> = []
        for operation in operations {
            switch operation {
            case .read: flags.insert(protected + "read")
            case .write: flags.insert(protected + "write")
            case .writeWithoutResponse:
                flags.insert("write-without-response")
                if protection != .none { flags.insert(protected + "write") }
            case .notify: flags.formUnion(["notify", protected + "notify"])
            case .indicate: flags.formUnion(["indicate", protected + "indicate"])
            }
        }
        return flags.sorted()
    }
}

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

    /// The path of the root object. bluetoothd reads the list of services and characteristics from the root object's ObjectManager.
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

    /// Returns the number as text with at least four digits, so that the alphabetical order of the paths is the order of the
    /// numbers. bluetoothd assigns the attribute handles in this order, because `MessageWriter` sorts the objects by path.
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
    /// - Parameter service: the path of the service that contains the characteristic.
    func interface(of service: DBusObjectPath, _ methods: [DBusMethod]) -> DBusInterface {
        var properties = [
            DBusProperty("UUID", .string(attribute.characteristic.description), announcing: .constant),
            DBusProperty("Service", .objectPath(service), announcing: .constant),
            DBusProperty("Flags", .strings(declaration.flags), announcing: .constant),
            // bluetoothd sends each change of this property as a notification or an indication.
            DBusProperty("Value", .bytes([])),
        ]
        // bluetoothd asks for a socket if the object has the property `WriteAcquired` or `NotifyAcquired`.
        if declaration.sockets.contains(.write) { properties.append(DBusProperty("WriteAcquired", false)) }
        if declaration.sockets.contains(.notify) { properties.append(DBusProperty("NotifyAcquired", false)) }
        return DBusInterface(BlueZName.gattCharacteristic, methods: methods, properties: properties)
    }
}
