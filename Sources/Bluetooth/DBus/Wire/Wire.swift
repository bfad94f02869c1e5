import CDBus
import DescriptorIO
import Glibc

/// Owns a private libdbus connection. All calls to libdbus run on the thread of the event loop.
///
/// `Wire` does not use the type `DBusPendingCall` of libdbus, because libdbus does not finish these objects if the bus exits.
/// Instead, `PendingCalls` stores the pending calls, and finishes them when the connection ends.
final class Wire: LoopClient {
    private let connection: OpaquePointer
    private let watches = WatchList()
    private var polled: [OpaquePointer] = []
    /// The function that the loop's thread calls in each round. It returns true if work is left for the next round.
    var onTurn: () -> Bool = { false }
    var deadline: ContinuousClock.Instant?

    /// Prevents libdbus from changing the signal settings of the process. By default, libdbus makes the whole process ignore SIGPIPE.
    /// libdbus does not need this setting, because it sends with MSG_NOSIGNAL, which prevents SIGPIPE.
    private static let leaveSignalsAlone: Void = dbus_connection_set_change_sigpipe(0)

    /// Connects to the bus, but does not send `Hello`. Throws `connectionFailed` and `resourcesExhausted`.
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

    private var canCarryDescriptors: Bool {
        dbus_connection_can_send_type(connection, DBusType.unixFileDescriptor.code) != 0
    }

    /// Queues a message and writes as many bytes as the socket accepts. Returns the serial number of the message. Throws
    /// `resourcesExhausted`.
    func send(_ message: Message) throws(DBusError) -> UInt32 {
        if dbus_message_contains_unix_fds(message.pointer) != 0, !canCarryDescriptors {
            throw DBusError(.resourcesExhausted, "this bus does not support file descriptors")
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
        // `dbus_watch_handle` can remove another watch from `watches`. Do not use a removed watch.
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

/// The watches of a libdbus connection. A watch is a set of socket events that libdbus waits for.
///
/// libdbus calls the functions that `attach` registers until the connection is closed. Therefore this list must exist until the
/// connection is closed.
private final class WatchList {
    private(set) var all: [OpaquePointer] = []

    func attach(to connection: OpaquePointer) -> Bool {
        let added = dbus_connection_set_watch_functions(
            connection,
            { watch, context in
                guard let watch, let list = WatchList.from(context) else { return 0 }
                list.all.append(watch)
                return 1
            },
            { watch, context in WatchList.from(context)?.all.removeAll { $0 == watch } },
            // libdbus calls this function when it enables or disables a watch. The function does nothing, because
            // `interests` reads the state of each watch before each poll.
            { _, _ in }, Unmanaged.passUnretained(self).toOpaque(), nil)
        return added != 0
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> WatchList? {
        context.map { Unmanaged<WatchList>.fromOpaque($0).takeUnretainedValue() }
    }
}

/// The libdbus library that the program uses.
package enum DBusLibrary {
    /// The version, such as `1.14.10`.
    package static var version: String {
        var (major, minor, micro): (Int32, Int32, Int32) = (0, 0, 0)
        dbus_get_version(&major, &minor, &micro)
        return "\(major).\(minor).\(micro)"
    }
}
