package import OTAUpdate

/// The result of one client's run.
package struct Run: Sendable {
    package var outcome: Result<UpdateReport, UpdateError>
    package var tally: Tally
    /// The duration in virtual time.
    package var duration: Duration

    package var report: UpdateReport? { try? outcome.get() }
    package var error: UpdateError.Code? {
        if case .failure(let error) = outcome { return error.code }
        return nil
    }
}
