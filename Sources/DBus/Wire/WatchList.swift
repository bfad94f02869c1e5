import CDBus

/// What libdbus wants to be told about its socket. It calls back while the list is attached, so the list outlives the
/// connection.
final class WatchList {
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
            // Whether a watch is enabled is asked before each poll.
            { _, _ in }, Unmanaged.passUnretained(self).toOpaque(), nil)
        return added != 0
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> WatchList? {
        context.map { Unmanaged<WatchList>.fromOpaque($0).takeUnretainedValue() }
    }
}
