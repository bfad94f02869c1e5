import DescriptorIO
import OTACommands
import OTAStore

/// Shows the warnings of a program that tries again every few seconds. A repeated warning is shown once more as a note, and then counted
/// (``WarningCounter``).
final class RepeatedWarnings: Sendable {
    private let console: Console
    private let counter = Guarded(WarningCounter())
    private let begun = ContinuousClock.now
    /// The time after which a warning counts as new.
    private static let quietTime = Duration.seconds(600)
    /// The time after which the same report of a loss is about another loss: several watches report each loss in a few seconds.
    private static let lossTime = Duration.seconds(30)

    init(_ console: Console) { self.console = console }

    func warn(_ error: some FailureCause) {
        let failure = error.failure
        warn(failure.message, hint: failure.hint)
    }

    /// Warns that the store does not answer. The program connects again by itself, so the hint must not recommend to run it again.
    func warn(_ error: StoreError) {
        let failure = error.failure
        guard error.code != .recordsLost else {
            return warn(failure.message, hint: failure.hint, quiet: Self.lossTime)
        }
        guard error.code == .unavailable else { return warn(failure.message, hint: failure.hint) }
        let check = error.hint ?? "check the server of --server, or the file of --store"
        warn(failure.message, hint: "wait: this program tries again by itself; if this does not end, \(check)")
    }

    /// - Parameter text: why the memory of serials could not be written.
    func warn(saving text: String) {
        warn("cannot write the memory of serials: \(text)", hint: "free space on the disk of the state folder")
    }

    func warn(_ text: String, hint: String) { warn(text, hint: hint, quiet: Self.quietTime) }

    private func warn(_ text: String, hint: String, quiet: Duration) {
        let now = begun.duration(to: .now)
        switch counter.with({ $0.count(text, at: now, quiet: quiet) }) {
        case nil: break
        case 1: console.warn(text, hint: hint)
        case 2: console.note("again: \(text); further repetitions are only counted")
        case let number?: console.note("\(number) times: \(text)")
        }
    }
}
