import DBus

/// Lists the well-known names on the system bus, with the process ID of each owner: `dbus-names`.
@main
struct Names {
    static func main() async throws {
        try await DBusConnection.withConnection(.system) { connection in
            let bus = DBusRemoteObject(connection, "org.freedesktop.DBus", "/org/freedesktop/DBus")
            let names = try await bus.call("org.freedesktop.DBus", "ListNames").require(0, \.strings)
            for name in names.sorted() where !name.hasPrefix(":") {
                let owner = try await bus.call(
                    "org.freedesktop.DBus", "GetConnectionUnixProcessID", [.string(name)]
                )
                print(name, try owner.require(0, \.uint32))
            }
        }
    }
}
