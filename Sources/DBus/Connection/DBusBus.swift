import Glibc

/// The bus to connect to.
public enum DBusBus: Sendable, Hashable {
    /// The system bus. Its address is in `DBUS_SYSTEM_BUS_ADDRESS`. Without this variable, it is the default address of the
    /// D-Bus specification.
    case system
    /// The session bus. Its address is in `DBUS_SESSION_BUS_ADDRESS`. Without this variable, it is the socket
    /// `$XDG_RUNTIME_DIR/bus`.
    case session
    /// An explicit address, such as `unix:path=/run/dbus/system_bus_socket`.
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

    /// Returns the path in the escaped form of a bus address (D-Bus specification, "Server Addresses"). Each byte that is not
    /// in the first `case` becomes %xx.
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
