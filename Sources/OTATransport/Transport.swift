public import OTAUpdate

/// The way to one device.
public protocol Transport: Sendable {
    /// Makes a link, lends it to `body` and takes it down when `body` returns, however it returns.
    ///
    /// - Throws: `LinkError` when no link came.
    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result
}
