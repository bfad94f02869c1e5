import CDBus

/// The loaded libdbus library.
package enum DBusLibrary {
    /// The version, such as `1.14.10`.
    package static var version: String {
        var (major, minor, micro): (Int32, Int32, Int32) = (0, 0, 0)
        dbus_get_version(&major, &minor, &micro)
        return "\(major).\(minor).\(micro)"
    }
}
