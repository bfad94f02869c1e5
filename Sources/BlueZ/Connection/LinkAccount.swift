public import DBus

/// Keeps account of the links that are a client's to end, for whoever ends them when the program cannot any more: bluetoothd keeps
/// a link whose program was killed.
public protocol LinkAccount: Sendable {
    /// bluetoothd is about to be told to connect this device, which was not connected; or was told so, and another program's link
    /// has ended since. Called once for each connection.
    func opened(_ device: DBusObjectPath)
    /// Its link has ended, or bluetoothd was told to end it, or none came about.
    func ended(_ device: DBusObjectPath)
}

extension BlueZClient {
    /// Has bluetoothd end the links of these devices, and attempts to connect them; returns when it was told so. A device that is
    /// not there or not connected is no matter.
    ///
    /// - Throws: `bus-unavailable`, `access-denied`, `cancelled`.
    public static func endLinks(
        to devices: some Sequence<DBusObjectPath> & Sendable, on bus: DBusBus = .system
    ) async throws(BlueZError) {
        do throws(DBusError) {
            let connection = try await DBusConnection.open(bus)
            for device in devices { await connection.releaseLink(device) }
            await connection.close()
        } catch {
            throw BlueZError(error, "end links")
        }
    }
}

extension DBusConnection {
    /// Asks for the end of a link without waiting for it, which takes 2 s: bluetoothd gives its profiles that time. It carries
    /// this out even when we are gone by then.
    func releaseLink(_ device: DBusObjectPath) async {
        try? callWithoutReply(BlueZName.service, device, BlueZName.device, "Disconnect")
        // What is answered here was sent behind it.
        _ = try? await call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", timeout: .seconds(2))
    }
}
