extension BlueZClient {
    /// Offers services over an adapter while `body` runs, and takes them back on every way out.
    ///
    /// - Parameter adapter: such as `hci1`; nil: the first that is powered. A client offers one set of services over each.
    /// - Throws: what `body` throws; `bus-unavailable`, `bluetoothd-unavailable`, `no-such-adapter`, `adapter-off`,
    ///   `access-denied`, `invalid-arguments` where services are offered over this adapter already.
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
