package import DBus

/// The connected centrals, based on the reports of bluetoothd. It is a value without a clock; all times are relative to the
/// same arbitrary moment.
package struct ConnectionTable: Sendable {
    package enum Change: Sendable, Hashable {
        case connected(PeripheralConnection)
        case disconnected(PeripheralConnection)
        case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    }

    /// The delay between the end of a link and the event that reports it.
    ///
    /// bluetoothd gets the end of a link from the kernel. It may do so before it has read the remaining packets from the
    /// link's socket. After a disconnection under load, 59 writes arrived within 16 ms after the report. These writes are
    /// valid. Therefore the end is reported after this delay, or when the next connection begins.
    package static let linger = Duration.milliseconds(250)

    private struct Entry {
        let connection: PeripheralConnection
        /// Whether the device has read or written a value. A device to which this machine is the central does not.
        var isCentral = false
        /// The time at which the end is reported. Nil: the link is connected.
        var end: Duration?
    }

    private var entries: [DBusObjectPath: Entry] = [:]
    private var notifying: Set<LocalAttribute> = []
    private var lastNumber = 0

    package init() {}

    /// The devices that have read or written a value.
    package var centrals: [DBusObjectPath] {
        entries.filter { $0.value.isCentral && $0.value.end == nil }.keys.sorted()
    }

    package func device(of connection: PeripheralConnection) -> DBusObjectPath? {
        entries.first { $0.value.connection == connection }?.key
    }

    /// The newest connection. It is taken as the sender of writes through a socket, because a socket does not identify the
    /// sender.
    package var newest: DBusObjectPath? {
        entries.max { $0.value.connection.number < $1.value.connection.number }?.key
    }

    /// Records a read or write by the remote device `device`, which is therefore a central. Returns nil if bluetoothd has not
    /// reported a connection of the device.
    package mutating func use(by device: DBusObjectPath) -> PeripheralConnection? {
        entries[device]?.isCentral = true
        return entries[device]?.connection
    }

    /// Records a connection. `device` may already be connected in this table.
    package mutating func connected(_ device: DBusObjectPath) -> [Change] {
        if let entry = entries[device], entry.end == nil { return [] }
        guard let central = BluetoothAddress(device: device) else { return [] }
        let ended = end(device)
        lastNumber += 1
        let connection = PeripheralConnection(number: lastNumber, central: central)
        entries[device] = Entry(connection: connection)
        // bluetoothd keeps the subscriptions of a bonded central and does not report them again.
        return ended + [.connected(connection)] + notifying.map { .subscribed(connection, $0, on: true) }
    }

    package mutating func disconnected(_ device: DBusObjectPath, at now: Duration) {
        guard let entry = entries[device], entry.end == nil else { return }
        entries[device]?.end = now + Self.linger
    }

    /// Ends the connections whose delay has passed.
    package mutating func expire(at now: Duration) -> [Change] {
        end { $0.end.map { $0 <= now } ?? false }
    }

    /// Ends all connections: bluetoothd has stopped and reports no more events.
    package mutating func clear() -> [Change] {
        notifying = []
        return end { _ in true }
    }

    /// Records a subscription. A link that is down keeps its subscriptions until its end is reported.
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
