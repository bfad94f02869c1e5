import CDBus

/// The standard interfaces of the D-Bus specification ("Standard Interfaces").
enum Standard {
    static let properties = "org.freedesktop.DBus.Properties"
    static let objectManager = "org.freedesktop.DBus.ObjectManager"
    static let introspectable = "org.freedesktop.DBus.Introspectable"
    static let peer = "org.freedesktop.DBus.Peer"
    /// The interface of the signals that libdbus itself creates.
    static let local = "org.freedesktop.DBus.Local"

    static let all: Set<String> = [properties, objectManager, introspectable, peer, local]

    static func interface(ofMethod name: String) -> String? {
        declarations(managesObjects: true).first { $0.methods.contains { $0.name == name } }?.name
    }

    /// The declarations for introspection. `ObjectTree.route` implements the methods.
    static func declarations(managesObjects: Bool) -> [DBusInterface] {
        managesObjects ? everywhere + [manager] : everywhere
    }

    private static let everywhere = [
        DBusInterface(
            peer,
            methods: [
                declaration("Ping", [], []), declaration("GetMachineId", [], [DBusArgument("machine_uuid", .string)]),
            ]),
        DBusInterface(
            introspectable, methods: [declaration("Introspect", [], [DBusArgument("xml_data", .string)])]),
        DBusInterface(
            properties,
            methods: [
                declaration("Get", [interfaceName, propertyName], [DBusArgument("value", .variant)]),
                declaration("GetAll", [interfaceName], [DBusArgument("props", .properties)]),
                declaration("Set", [interfaceName, propertyName, DBusArgument("value", .variant)], []),
            ],
            signals: [
                .init(
                    "PropertiesChanged",
                    [
                        interfaceName, DBusArgument("changed_properties", .properties),
                        DBusArgument("invalidated_properties", .array(.string)),
                    ])
            ]),
    ]

    private static let manager = DBusInterface(
        objectManager,
        methods: [
            declaration(
                "GetManagedObjects", [],
                [
                    DBusArgument(
                        "objpath_interfaces_and_properties", .dictionary(key: .objectPath, value: interfaces))
                ])
        ],
        signals: [
            .init(
                "InterfacesAdded",
                [DBusArgument("object_path", .objectPath), DBusArgument("interfaces_and_properties", interfaces)]),
            .init(
                "InterfacesRemoved",
                [DBusArgument("object_path", .objectPath), DBusArgument("interfaces", .array(.string))]),
        ])

    private static let interfaces = DBusType.dictionary(key: .string, value: .properties)
    private static let interfaceName = DBusArgument("interface_name", .string)
    private static let propertyName = DBusArgument("property_name", .string)

    private static func declaration(
        _ name: String, _ inputs: [DBusArgument], _ outputs: [DBusArgument]
    ) -> DBusMethod {
        DBusMethod(name, takes: inputs, returns: outputs) { _ in [] }
    }
}

enum Machine {
    /// Returns the machine ID. Throws `remote`, which is sent to the caller.
    static func id() throws(DBusError) -> String {
        guard let text = dbus_try_get_local_machine_id(nil) else {
            throw .remote(DBusError.Name.failed, "this machine has no machine ID")
        }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}
