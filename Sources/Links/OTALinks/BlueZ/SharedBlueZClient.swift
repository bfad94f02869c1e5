package import BlueZ
package import DBus
package import Logging

/// A client of bluetoothd for all transports of this program.
///
/// Only one task at a time may connect over an adapter (`AdapterRadio.takeTurn`). Transports with different clients do not know each
/// other's turns. If two such transports connected at the same time, one attempt would fail with `InProgress`. The repeated attempt
/// would take more time.
package actor SharedBlueZClient {
    private let bus: DBusBus
    private let logger: Logger
    private let links: (any LinkAccount)?
    private var opening: Task<Result<BlueZClient, BlueZError>, Never>?

    package init(
        _ bus: DBusBus = .system, logger: Logger = Logger(label: "ota.bluez"), links: (any LinkAccount)? = nil
    ) {
        self.bus = bus
        self.logger = logger
        self.links = links
    }

    /// Returns the open client. Opens a new client if none is open, for example because the bus connection of the previous client has
    /// ended.
    package func client() async throws(BlueZError) -> BlueZClient {
        while let opening {
            if case .success(let client) = await opening.value, await client.isOpen { return client }
            // During the wait, another caller may have set `opening` to a newer task. Keep the newer task.
            if self.opening == opening { self.opening = nil }
        }
        let (bus, logger, links) = (bus, logger, links)
        let task = Task {
            do throws(BlueZError) {
                return Result<BlueZClient, BlueZError>.success(
                    try await BlueZClient.open(bus, logger: logger, links: links))
            } catch {
                return .failure(error)
            }
        }
        opening = task
        return try await task.value.get()
    }

    /// Returns the name of the adapter that a connection uses; nil if this adapter does not exist or is not powered. If `name` is nil, a
    /// connection uses the first powered adapter. Otherwise, a connection uses the adapter with this name.
    package func adapter(_ name: String?) async throws(BlueZError) -> String? {
        let adapters = try await client().adapters
        return adapters.first { $0.isPowered && (name == nil || $0.name == name) }?.name
    }
}
