extension BlueZClient {
    /// Offers services over an adapter while `body` runs. The services are always removed at the end: on return, error or
    /// cancellation.
    ///
    /// - Parameter adapter: the adapter's name, such as `hci1`. Nil: the first powered adapter. A client can offer one set
    ///   of services per adapter.
    ///
    /// - Throws: the errors of `body`; `bus-unavailable`, `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`,
    ///   `access-denied`, and `invalid-arguments` if this client already offers services over this adapter.
    public nonisolated func withPeripheral<Result>(
        over adapter: String? = nil, offering services: [LocalService], _ body: (Peripheral) async throws -> Result
    ) async throws -> Result {
        let peripheral = Peripheral(bus, logger, try await usableAdapter(adapter), services)
        let changes = try await peripheral.open()
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await peripheral.follow(changes) }
            defer { group.cancelAll() }
            do {
                let result = try await body(peripheral)
                await peripheral.close()
                return result
            } catch {
                await peripheral.close()
                throw error
            }
        }
    }

    private func usableAdapter(_ name: String?) throws(BlueZError) -> BluetoothAdapter {
        guard isOpen else { throw BlueZError(.busUnavailable, "the connection to the bus has ended") }
        return try tree.usableAdapter(name)
    }
}
