/// Introspection data (specification, "Introspection Data Format"). All names except those of arguments were checked and
/// need no escaping. Characters that are not allowed are removed from the names of arguments.
enum Introspection {
    static func describe(_ object: ObjectTree.Object?, children: [String]) -> String {
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
