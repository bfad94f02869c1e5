public import DBus

/// A record of the links that a client must end. bluetoothd keeps the links of a killed program. With the record, another program can
/// end those links (``BlueZClient/endLinks(to:on:)``).
public protocol LinkAccount: Sendable {
    /// Records a link that this program must end. The client calls this method at most once per connection, before it asks
    /// bluetoothd to connect. If the connection shares the link of another program, the client calls this method only if that link
    /// ends during the connection attempt.
    func opened(_ device: DBusObjectPath)
    /// Removes the record of a link. The client calls this method when the link has ended, when bluetoothd has received the request
    /// to end the link, or when no link was created.
    func ended(_ device: DBusObjectPath)
}

extension BlueZClient {
    /// Asks bluetoothd to end the links to these devices, and to stop pending attempts to connect to these devices. This method
    /// returns when the requests are sent, before the links are down. It ignores devices that do not exist or are not connected.
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
    /// Asks bluetoothd to end a link, but does not wait for the end. bluetoothd ends the link after 2 s, because it first gives its
    /// profiles time to stop. This program may exit before the link has ended.
    func releaseLink(_ device: DBusObjectPath) async {
        try? callWithoutReply(BlueZName.service, device, BlueZName.device, "Disconnect")
        // The bus handles messages in order. Therefore a reply to `GetId` shows that the bus has received `Disconnect`.
        _ = try? await call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", timeout: .seconds(2))
    }
}
