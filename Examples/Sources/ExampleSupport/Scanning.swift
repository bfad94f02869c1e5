public import BlueZ

extension BlueZClient {
    /// Reports the devices in range until the task is cancelled. After an error, such as a restart of bluetoothd, starts a new scan. The new
    /// scan reports each device again.
    ///
    /// - Parameter failed: is called with the error of a scan.
    public nonisolated func keepScanning(
        over adapter: String?, for filter: ScanFilter = ScanFilter(),
        failed: @Sendable (any Error) -> Void = { _ in }, _ report: @Sendable (ScanEvent) -> Void
    ) async {
        while !Task.isCancelled {
            do {
                try await withScan(over: adapter, for: filter) { scan in
                    for try await event in scan { report(event) }
                }
            } catch { if !Task.isCancelled { failed(error) } }
            try? await Task.sleep(for: .seconds(1))
        }
    }
}
