package import OTAUpdate

/// What became of one run of a client.
package struct Run: Sendable {
    package var outcome: Result<UpdateReport, UpdateError>
    package var tally: Tally
    /// In virtual time.
    package var duration: Duration

    package var report: UpdateReport? { try? outcome.get() }
    package var error: UpdateError.Code? {
        if case .failure(let error) = outcome { return error.code }
        return nil
    }
}
