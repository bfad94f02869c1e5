import CDBus

/// The names and the declarations of the standard interfaces (D-Bus specification, "Standard Interfaces").
enum Standard {
    static let properties = "org.freedesktop.DBus.Properties"
    static let objectManager = "org.freedesktop.DBus.ObjectManager"
    static let introspectable = "org.freedesktop.DBus.Introspectable"
    static let peer = "org.freedesktop.DBus.Peer"
    /// The interface of the signals that libdbus itself creates, such as `Disconnected`.
    static let local = "org.freedesktop.DBus.Local"

    static let all: Set<String> = [properties, objectManager, introspectable, peer, local]

    static func interface(ofMethod name: String) -> String? {
        declarations(managesObjects: true).first { $0.methods.contains { $0.name == name } }?.name
    }

    /// Returns the declarations of the standard interfaces, for introspection. The handlers of the declarations do nothing,
    /// because `ExportedObjects.route` executes the calls of these interfaces.
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
    /// Returns the machine ID of this computer. Throws `remote` if the computer has no machine ID. The caller of `GetMachineId` then
    /// gets this error as the reply.
    static func id() throws(DBusError) -> String {
        guard let text = dbus_try_get_local_machine_id(nil) else {
            throw .remote(DBusError.Name.failed, "this machine has no machine ID")
        }
        defer { dbus_free(text) }
        return String(cString: text)
    }
}

/// Creates introspection data (D-Bus specification, "Introspection Data Format"). The names in the data need no XML
/// escaping. `DBusInterface.check` refuses names with special characters, and `describe` removes special characters from
/// the names of arguments.
enum Introspection {
    static func describe(_ object: ExportedObjects.Object?, children: [String]) -> String {
        var lines = [
            "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"",
            " \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">", "<node>",
        ]
        if let object {
            lines += Standard.declarations(managesObjects: object.managesObjects).flatMap(describe)
            lines += object.interfaces.flatMap(describe)
        }
        lines += children.map { "  <node name=\"\($0)\"/>" }
        lines.append("</node>\n")
        return lines.joined(separator: "\n")
    }

    private static func describe(_ interface: DBusInterface) -> [String] {
        var lines = ["  <interface name=\"\(interface.name)\">"]
        for method in interface.methods {
            lines.append("    <method name=\"\(method.name)\">")
            lines += method.inputs.map { describe($0, " direction=\"in\"") }
            lines += method.outputs.map { describe($0, " direction=\"out\"") }
            lines.append("    </method>")
        }
        for signal in interface.signals {
            lines.append("    <signal name=\"\(signal.name)\">")
            lines += signal.arguments.map { describe($0, "") }
            lines.append("    </signal>")
        }
        for property in interface.properties {
            let access = property.setter == nil ? "read" : "readwrite"
            let annotation = "org.freedesktop.DBus.Property.EmitsChangedSignal"
            lines.append(
                "    <property name=\"\(property.name)\" type=\"\(property.value.type.text)\" access=\"\(access)\">")
            lines.append("      <annotation name=\"\(annotation)\" value=\"\(property.announcement.rawValue)\"/>")
            lines.append("    </property>")
        }
        lines.append("  </interface>")
        return lines
    }

    private static func describe(_ argument: DBusArgument, _ direction: String) -> String {
        let name = argument.name.unicodeScalars.filter { $0.properties.isAlphabetic || $0 == "_" || ("0"..."9") ~= $0 }
        return
            "      <arg name=\"\(String(String.UnicodeScalarView(name)))\" type=\"\(argument.type.text)\"\(direction)/>"
    }
}
