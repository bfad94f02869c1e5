import BlueZ
import OTAUpdate

extension Wiring {
    /// Scans for devices and returns them, strongest signal first.
    ///
    /// - Throws: `BlueZError`; `Failure` if a signal interrupts the scan.
    func scan(_ search: DeviceSearch, over adapter: String?) async throws -> [ScannedDevice] {
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = try await BlueZClient.open(logger: console.logger, links: links)
        let board = ScanBoard(ScanDisplay(console))
        do {
            try await untilSignalled {
                try await look(search, client, adapter, board)
            }
        } catch {
            await board.finish()
            await client.close()
            throw error
        }
        await board.finish()
        await client.close()
        return await board.list
    }

    private func look(
        _ search: DeviceSearch, _ client: BlueZClient, _ adapter: String?, _ board: ScanBoard
    ) async throws {
        let filter = search.filter
        let (found, feed) = AsyncStream.makeStream(of: BluetoothDevice.self)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                defer { feed.finish() }
                try await client.withScan(over: adapter, for: filter) { scan in
                    try await within(search.duration) {
                        for try await event in scan {
                            if let device = await board.note(event) { feed.yield(device) }
                        }
                    }
                }
            }
            if search.reads { group.addTask { await read(found, client, adapter, board) } }
            try await group.waitForAll()
        }
    }

    /// Reads up to 3 devices at the same time. The adapter establishes only one connection at a time.
    private func read(
        _ found: AsyncStream<BluetoothDevice>, _ client: BlueZClient, _ adapter: String?, _ board: ScanBoard
    ) async {
        await withTaskGroup(of: Void.self) { group in
            var running = 0
            for await device in found {
                if running == 3 { await group.next() } else { running += 1 }
                group.addTask { await read(device, client, adapter, board) }
            }
        }
    }

    private func read(_ device: BluetoothDevice, _ client: BlueZClient, _ adapter: String?, _ board: ScanBoard) async {
        let updateProtocol: UpdateProtocol = UpdateProtocol.advertised(by: device).contains(.ota) ? .ota : .smp
        let lock = BluetoothLock(invocation)
        let request = ConnectionRequest(
            .address(device.address), adapter: adapter, services: [updateProtocol.service],
            admits: { device throws(BlueZError) in try await lock.take(device) })
        do {
            // SMP requires a subscription, and a device can demand pairing for it. The scan never asks the user for a passkey,
            // so a pairing that needs one fails at once.
            let pairing: PairingResponder? = updateProtocol == .smp ? .unattended : nil
            let identity = try await client.withConnection(request, pairing: pairing) { connection in
                switch updateProtocol {
                case .ota: try await DeviceIdentity(readFrom: connection)
                case .smp: try await DeviceIdentity(askedOf: connection)
                }
            }
            await board.update(device.address, identity)
        } catch {
            let reason = (error as? BlueZError)?.context ?? (error as? UpdateError)?.context ?? "\(error)"
            console.debug("\(device.address) was not read: \(reason)")
            await board.update(device.address, unread: reason)
        }
    }
}

/// Runs `body` and cancels it after `duration`.
private func within(_ duration: Duration, _ body: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await Task.sleep(for: duration) }
        group.addTask { try await body() }
        defer { group.cancelAll() }
        try await group.next()
    }
}
