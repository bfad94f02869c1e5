public import DBus

/// Records the links that a client must end. If the program is killed, bluetoothd keeps its links, and another program can
/// end them from this record.
public protocol LinkAccount: Sendable {
    /// Records a link that this program must end. It is called before bluetoothd gets the request to connect a device that
    /// is not connected. It is also called if another program's link has ended during the attempt. It is called once per
    /// connection.
    func opened(_ device: DBusObjectPath)
    /// Removes the record: the link has ended, bluetoothd got the request to end it, or no link was made.
    func ended(_ device: DBusObjectPath)
}

extension BlueZClient {
    /// Requests that bluetoothd end the links to these devices, and pending attempts to connect them. Returns when
    /// bluetoothd has got the requests. Devices that do not exist or are not connected are ignored.
    ///
    /// - Throws: ``BlueZError/Code/busUnavailable``, ``BlueZError/Code/accessDenied``, ``BlueZError/Code/cancelled``.
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
    /// Requests the end of a link, but does not wait for it. The end takes 2 s, because bluetoothd gives its profiles that
    /// time. bluetoothd completes the request even if this program has exited.
    func releaseLink(_ device: DBusObjectPath) async {
        try? callWithoutReply(BlueZName.service, device, BlueZName.device, "Disconnect")
        // A reply to this call shows that the earlier request was sent.
        _ = try? await call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", timeout: .seconds(2))
    }
}
