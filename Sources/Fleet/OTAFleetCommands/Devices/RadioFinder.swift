internal import DescriptorIO
package import OTAFleet
package import OTAGateway
package import OTAUpdate

/// Scans for updatable Bluetooth devices once a minute, and reads the product and the version of each new device.
package struct RadioFinder<C: Clock>: Sendable where C.Duration == Duration {
    /// The number of devices that are read at the same time.
    private static var readsAtOnce: Int { 3 }
    /// The pause between two scans. A scan takes time on air, which the updates also need.
    package static var pause: Duration { .seconds(50) }

    private let clock: C
    private let scan: @Sendable () async throws -> [RadioTable.Found]
    private let status: @Sendable (DeviceID, _ adapter: String?) async throws -> DeviceDescription
    private let failed: @Sendable (any Error) -> Void
    private let table = Guarded(RadioTable())

    /// - Parameters:
    ///   - scan: performs one scan.
    ///   - status: reads the product and the version of a device.
    ///   - failed: receives the error of a scan. The next scan follows after the usual pause.
    package init(
        clock: C, scan: @escaping @Sendable () async throws -> [RadioTable.Found],
        status: @escaping @Sendable (DeviceID, _ adapter: String?) async throws -> DeviceDescription,
        failed: @escaping @Sendable (any Error) -> Void
    ) {
        (self.clock, self.scan, self.status, self.failed) = (clock, scan, status, failed)
    }

    /// Reports the devices in range until the task is cancelled.
    package func run(_ report: @escaping @Sendable (Sighting) -> Void) async {
        repeat {
            do {
                let found = try await scan()
                for sighting in table.with({ $0.scanned(found) }) { report(sighting) }
                await readNewDevices(report)
            } catch {
                if !Task.isCancelled { failed(error) }
            }
        } while (try? await clock.sleep(for: Self.pause, tolerance: nil)) != nil
    }

    private func readNewDevices(_ report: @escaping @Sendable (Sighting) -> Void) async {
        await withDiscardingTaskGroup { group in
            let unread = Guarded(table.with(\.unread)[...])
            for _ in 0..<Self.readsAtOnce {
                group.addTask {
                    while !Task.isCancelled, let device = unread.with({ $0.popFirst() }) { await read(device, report) }
                }
            }
        }
    }

    private func read(_ device: DeviceID, _ report: @Sendable (Sighting) -> Void) async {
        do {
            let description = try await status(device, table.with { $0.adapter(of: device) })
            report(.heard(device, description, rssi: table.with { $0.read(device) }))
        } catch {
            table.with { $0.failedToRead(device) }
        }
    }

    /// Performs `body`, which connects to a device. The argument of `body` is the adapter of the device; nil: the first powered adapter.
    ///
    /// While `body` runs, a scan that does not find the device does not count.
    package func connecting<Result>(
        to device: DeviceID, _ body: (_ adapter: String?) async -> Result
    ) async -> Result {
        let adapter = table.with {
            $0.connected(true, device)
            return $0.adapter(of: device)
        }
        defer { table.with { $0.connected(false, device) } }
        return await body(adapter)
    }
}
