import CDBus

/// The events that libdbus wants to receive for its socket. libdbus calls back as long as the list is attached. Therefore
/// the list must outlive the connection.
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
            // No action: each poll asks whether a watch is enabled.
            { _, _ in }, Unmanaged.passUnretained(self).toOpaque(), nil)
        return added != 0
    }

    private static func from(_ context: UnsafeMutableRawPointer?) -> WatchList? {
        context.map { Unmanaged<WatchList>.fromOpaque($0).takeUnretainedValue() }
    }
}
