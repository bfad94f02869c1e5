import CDBus

/// Checks names before libdbus gets them, because libdbus aborts the process on a malformed name. Each check throws
/// `invalidArguments`.
enum Names {
    static func check(path: DBusObjectPath) throws(DBusError) {
        try check(path.text, "object path", dbus_validate_path)
    }

    static func check(interface: String) throws(DBusError) {
        try check(interface, "interface name", dbus_validate_interface)
    }

    static func check(member: String) throws(DBusError) {
        try check(member, "member name", dbus_validate_member)
    }

    static func check(bus name: String) throws(DBusError) {
        try check(name, "bus name", dbus_validate_bus_name)
    }

    static func check(error name: String) throws(DBusError) {
        try check(name, "error name", dbus_validate_error_name)
    }

    static func check(string: String) throws(DBusError) {
        guard !string.utf8.contains(0) else { throw DBusError(.invalidArguments, "a string contains a NUL character") }
    }

    private static func check(
        _ name: String, _ kind: String,
        _ isValid: (UnsafePointer<CChar>?, UnsafeMutablePointer<CDBus.DBusError>?) -> dbus_bool_t
    ) throws(DBusError) {
        guard !name.utf8.contains(0), name.withCString({ isValid($0, nil) }) != 0 else {
            throw DBusError(.invalidArguments, "\"\(name)\" is not a valid \(kind)")
        }
    }
}
