import CDBus
import DescriptorIO
import Glibc

/// Owner of a private libdbus connection. Confined to its loop's thread, with everything libdbus is asked for.
///
/// Messages are popped one by one, and neither pending calls nor handlers nor timeouts of libdbus are used: when a bus dies
/// libdbus finishes no pending call, and what is ours alone can be ended by us.
final class Wire: LoopClient {
    private let connection: OpaquePointer
    private let watches = WatchList()
    private var polled: [OpaquePointer] = []
    /// Called on the loop's thread in each round; true when some work is left.
    var onTurn: () -> Bool = { false }
    var deadline: ContinuousClock.Instant?

    /// libdbus would ignore SIGPIPE for the whole process, which is not ours to decide; it sends with MSG_NOSIGNAL.
    private static let leaveSignalsAlone: Void = dbus_connection_set_change_sigpipe(0)

    /// Connects; says nothing yet. Throws `connectionFailed`.
    init(address: String) throws(DBusError) {
        _ = Self.leaveSignalsAlone
        var error = CDBus.DBusError()
        dbus_error_init(&error)
        defer { dbus_error_free(&error) }
        guard let connection = dbus_connection_open_private(address, &error) else {
            let reason = error.message.map { String(cString: $0) } ?? "unknown"
            throw DBusError(.connectionFailed, "\(address): \(reason)")
        }
        self.connection = connection
        dbus_connection_set_exit_on_disconnect(connection, 0)
        guard watches.attach(to: connection) else { throw .outOfMemory }
    }

    deinit {
        dbus_connection_close(connection)
        dbus_connection_unref(connection)
    }

    // MARK: - Messages

    var canCarryDescriptors: Bool { dbus_connection_can_send_type(connection, DBusType.unixFileDescriptor.code) != 0 }

    /// Queues the message, and writes what the socket accepts. Its serial number.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        if dbus_message_contains_unix_fds(message.pointer) != 0, !canCarryDescriptors {
            throw DBusError(.resourcesExhausted, "this bus carries no file descriptors")
        }
        var serial: dbus_uint32_t = 0
        guard dbus_connection_send(connection, message.pointer, &serial) != 0 else { throw .outOfMemory }
        return serial
    }

    func receive() -> Message? { dbus_connection_pop_message(connection).map { Message(adopting: $0) } }

    func setUniqueName(_ name: String) { _ = dbus_bus_set_unique_name(connection, name) }

    // MARK: - LoopClient

    var interests: [pollfd] {
        polled = watches.all.filter { dbus_watch_get_enabled($0) != 0 }
        return polled.map { watch in
            let flags = dbus_watch_get_flags(watch)
            var events: CInt = 0
            if flags & DBUS_WATCH_READABLE.rawValue != 0 { events |= POLLIN }
            if flags & DBUS_WATCH_WRITABLE.rawValue != 0 { events |= POLLOUT }
            return pollfd(fd: dbus_watch_get_unix_fd(watch), events: Int16(events), revents: 0)
        }
    }

    func ready(_ entries: ArraySlice<pollfd>) {
        // The first may have removed the second.
        for (watch, entry) in zip(polled, entries) where entry.revents != 0 && watches.all.contains(watch) {
            let events = CInt(entry.revents)
            var flags: UInt32 = 0
            if events & POLLIN != 0 { flags |= DBUS_WATCH_READABLE.rawValue }
            if events & POLLOUT != 0 { flags |= DBUS_WATCH_WRITABLE.rawValue }
            if events & POLLHUP != 0 { flags |= DBUS_WATCH_HANGUP.rawValue }
            if events & (POLLERR | POLLNVAL) != 0 { flags |= DBUS_WATCH_ERROR.rawValue }
            _ = dbus_watch_handle(watch, flags)
        }
    }

    func turn() -> Bool { onTurn() }
}
