package import DBus

/// Which centrals are connected, from what bluetoothd tells: a value without a clock; times are since any fixed moment.
package struct ConnectionTable: Sendable {
    package enum Change: Sendable, Hashable {
        case connected(PeripheralConnection)
        case disconnected(PeripheralConnection)
        case subscribed(PeripheralConnection, LocalAttribute, on: Bool)
    }

    /// bluetoothd hears of a lost link from the kernel, and may do so before it has read what still lay in the link's own
    /// socket: after a cut under load 59 writes came within 16 ms behind the news. They count, so the end is told this much
    /// later, or with the next connection.
    package static let linger = Duration.milliseconds(250)

    private struct Entry {
        let connection: PeripheralConnection
        /// It has read or written: a device that this machine is the central of does not.
        var isCentral = false
        /// When its end is told; nil: it lives.
        var end: Duration?
    }

    private var entries: [DBusObjectPath: Entry] = [:]
    private var notifying: Set<LocalAttribute> = []
    private var lastNumber = 0

    package init() {}

    /// Those that have read or written, by device.
    package var centrals: [DBusObjectPath] {
        entries.filter { $0.value.isCentral && $0.value.end == nil }.keys.sorted()
    }

    package func device(of connection: PeripheralConnection) -> DBusObjectPath? {
        entries.first { $0.value.connection == connection }?.key
    }

    /// The newest connection: whoever writes through a socket, which does not tell.
    package var newest: DBusObjectPath? {
        entries.max { $0.value.connection.number < $1.value.connection.number }?.key
    }

    /// Something was read or written by `device`. Nil: it is not connected, as far as is known.
    package mutating func use(by device: DBusObjectPath) -> PeripheralConnection? {
        entries[device]?.isCentral = true
        return entries[device]?.connection
    }

    /// `device` may have been known to be connected.
    package mutating func connected(_ device: DBusObjectPath) -> [Change] {
        if let entry = entries[device], entry.end == nil { return [] }
        guard let central = BluetoothAddress(device: device) else { return [] }
        let ended = end(device)
        lastNumber += 1
        let connection = PeripheralConnection(number: lastNumber, central: central)
        entries[device] = Entry(connection: connection)
        // bluetoothd keeps a bonded central's subscriptions and does not tell of them again.
        return ended + [.connected(connection)] + notifying.map { .subscribed(connection, $0, on: true) }
    }

    package mutating func disconnected(_ device: DBusObjectPath, at now: Duration) {
        guard let entry = entries[device], entry.end == nil else { return }
        entries[device]?.end = now + Self.linger
    }

    /// Ends the connections whose time has come.
    package mutating func expire(at now: Duration) -> [Change] {
        end { $0.end.map { $0 <= now } ?? false }
    }

    /// bluetoothd has gone, and with it all that it would have told.
    package mutating func clear() -> [Change] {
        notifying = []
        return end { _ in true }
    }

    /// A link that is down keeps its subscriptions until its end is told.
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

extension BluetoothAddress {
    /// Of a device's path, such as `/org/bluez/hci0/dev_AA_BB_CC_DD_EE_FF`.
    init?(device: DBusObjectPath) {
        guard device.lastElement.hasPrefix("dev_") else { return nil }
        self.init(device.lastElement.dropFirst(4).split(separator: "_").joined(separator: ":"))
    }
}
