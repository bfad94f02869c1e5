public import OTAUpdate

/// A transport to one device, such as BLE, UDP, a serial line or the simulator.
public protocol Transport: Sendable {
    /// Opens a link, passes it to `body`, and closes it when `body` returns.
    ///
    /// - Throws: `LinkError` if the link could not be opened.
    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result
}
