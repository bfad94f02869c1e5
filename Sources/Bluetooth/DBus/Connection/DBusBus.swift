import Glibc

/// A bus that a ``DBusConnection`` can connect to.
public enum DBusBus: Sendable, Hashable {
    /// The system bus. The environment variable `DBUS_SYSTEM_BUS_ADDRESS` contains the address. If this variable is
    /// unset or empty, the connection uses the default address in the D-Bus specification.
    case system
    /// The session bus. The environment variable `DBUS_SESSION_BUS_ADDRESS` contains the address. If this variable is
    /// unset or empty, the connection uses the socket `$XDG_RUNTIME_DIR/bus`.
    case session
    /// The bus at this address, such as `unix:path=/run/dbus/system_bus_socket`. The format is in the D-Bus
    /// specification, "Server Addresses".
    case address(String)

    func address() throws(DBusError) -> String {
        switch self {
        case .system:
            return Self.environment("DBUS_SYSTEM_BUS_ADDRESS") ?? "unix:path=/var/run/dbus/system_bus_socket"
        case .session:
            if let address = Self.environment("DBUS_SESSION_BUS_ADDRESS") { return address }
            guard let folder = Self.environment("XDG_RUNTIME_DIR") else {
                throw DBusError(
                    .connectionFailed,
                    "cannot find the session bus: DBUS_SESSION_BUS_ADDRESS and XDG_RUNTIME_DIR are unset or empty")
            }
            return "unix:path=\(Self.escaped(folder))/bus"
        case .address(let address):
            try Names.check(string: address)
            return address
        }
    }

    private static func environment(_ name: String) -> String? {
        guard let value = getenv(name), value.pointee != 0 else { return nil }
        return String(cString: value)
    }

    /// Escapes a path for a bus address (D-Bus specification, "Server Addresses"). Letters, digits, `-`, `_`, `/` and
    /// `.` stay as they are. Every other byte becomes `%` and two hexadecimal digits.
    private static func escaped(_ path: String) -> String {
        let digits = Array("0123456789abcdef".unicodeScalars)
        var escaped = String.UnicodeScalarView()
        for byte in path.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "/"),
                UInt8(ascii: "."):
                escaped.append(Unicode.Scalar(byte))
            default:
                escaped.append(contentsOf: ["%", digits[Int(byte >> 4)], digits[Int(byte & 15)]])
            }
        }
        return String(escaped)
    }
}
