package import DBus

/// The connected devices, as bluetoothd reports them, and the devices whose link ended less than ``linger`` ago. Each connection has a
/// number. The table is a value without a clock: the caller passes the current time, measured from any fixed moment.
package struct ConnectionTable: Sendable {
    package enum Change: Sendable, Hashable {
        case connected(PeripheralConnection)
        case disconnected(PeripheralConnection)
        case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    }

    /// The delay between the end of a link and the event `disconnected`.
    ///
    /// bluetoothd may report the end of a link before it has read the last packets from the link's socket. In a test under load, 59 writes
    /// arrived up to 16 ms after this report. The program must get these writes before the event `disconnected`. If the device connects
    /// again during the delay, the event `disconnected` of the old link comes at once.
    package static let linger = Duration.milliseconds(250)

    private struct Entry {
        let connection: PeripheralConnection
        /// True if the device has read or written a value, and therefore is a central. The table also contains other devices: peripherals
        /// to which this machine has connected, and centrals that have not accessed a value yet.
        var isCentral = false
        /// The time of the event `disconnected`; nil while the link is connected.
        var end: Duration?
    }

    private var entries: [DBusObjectPath: Entry] = [:]
    private var notifying: Set<LocalAttribute> = []
    private var lastNumber = 0

    package init() {}

    /// The connected devices that have read or written a value.
    package var centrals: [DBusObjectPath] {
        entries.filter { $0.value.isCentral && $0.value.end == nil }.keys.sorted()
    }

    package func device(of connection: PeripheralConnection) -> DBusObjectPath? {
        entries.first { $0.value.connection == connection }?.key
    }

    /// The device with the newest connection; nil if the table is empty. The peripheral reports writes through a socket as writes of this
    /// device, because a socket does not identify the sender.
    package var newest: DBusObjectPath? {
        entries.max { $0.value.connection.number < $1.value.connection.number }?.key
    }

    /// Records that a device has read or written a value, which makes the device a central. Returns the connection of the device; nil if
    /// the table does not contain the device.
    package mutating func use(by device: DBusObjectPath) -> PeripheralConnection? {
        entries[device]?.isCentral = true
        return entries[device]?.connection
    }

    /// Records that the device has connected. Has no effect if the table already contains a connection of the device that has not ended.
    ///
    /// - Parameter opener: returns the end that opened the link. It is called only for a new connection.
    package mutating func connected(
        _ device: DBusObjectPath, openedBy opener: (BluetoothAddress) -> LinkOpener
    ) -> [Change] {
        if let entry = entries[device], entry.end == nil { return [] }
        guard let central = BluetoothAddress(device: device) else { return [] }
        let ended = end(device)
        lastNumber += 1
        let connection = PeripheralConnection(number: lastNumber, central: central, opener: opener(central))
        entries[device] = Entry(connection: connection)
        // Report the current subscriptions for the new connection. bluetoothd keeps the subscriptions of a bonded central, but does not
        // report these subscriptions when the central connects again.
        return ended + [.connected(connection)] + notifying.map { .subscribed(connection, $0, on: true) }
    }

    /// Records that the link of a device has ended. `expire` reports the end after the delay `linger`.
    package mutating func disconnected(_ device: DBusObjectPath, at now: Duration) {
        guard let entry = entries[device], entry.end == nil else { return }
        entries[device]?.end = now + Self.linger
    }

    /// Removes the connections whose delay `linger` has passed, and returns their events `disconnected`.
    package mutating func expire(at now: Duration) -> [Change] {
        end { $0.end.map { $0 <= now } ?? false }
    }

    /// Removes all connections and subscriptions, and returns the events `disconnected`. Call this method when bluetoothd or the
    /// peripheral stops, because bluetoothd then does not report the end of the connections.
    package mutating func clear() -> [Change] {
        notifying = []
        return end { _ in true }
    }

    /// Records that notifications of an attribute were turned on or off. If this is a change, returns an event for each device whose link
    /// has not ended.
    package mutating func notifications(of attribute: LocalAttribute, on: Bool) -> [Change] {
        let isNews = on ? notifying.insert(attribute).inserted : notifying.remove(attribute) != nil
        guard isNews else { return [] }
        return entries.values.filter { $0.end == nil }.map(\.connection).sorted { $0.number < $1.number }
            .map { .subscribed($0, attribute, on: on) }
    }

    private mutating func end(where isOver: (Entry) -> Bool) -> [Change] {
        entries.filter { isOver($0.value) }
            .sorted { $0.value.connection.number < $1.value.connection.number }
            .flatMap { end($0.key) }
    }

    private mutating func end(_ device: DBusObjectPath) -> [Change] {
        entries.removeValue(forKey: device).map { [.disconnected($0.connection)] } ?? []
    }
}
