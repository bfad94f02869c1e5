import DescriptorIO
import OTACommands
import OTAStore

/// Shows the warnings of a program that tries again every few seconds. A warning that repeats the last one is not shown again, except for
/// another loss of records: several watches report each loss in a few seconds.
final class RepeatedWarnings: Sendable {
    private let console: Console
    private let last = Guarded("")
    private let lastLoss = Guarded(ContinuousClock.Instant?.none)
    /// The time after which the same report of a loss is about another loss.
    private static let lossTime = Duration.seconds(30)

    init(_ console: Console) { self.console = console }

    func warn(_ error: some FailureCause) {
        let failure = error.failure
        warn(failure.message, hint: failure.hint)
    }

    /// Warns that the store does not answer. The program connects again by itself, so the hint must not recommend to run it again.
    func warn(_ error: StoreError) {
        let failure = error.failure
        if error.code == .recordsLost {
            let previous = lastLoss.exchange(.now)
            if let previous, previous.duration(to: .now) > Self.lossTime { _ = last.exchange("") }
        }
        guard error.code == .unavailable else { return warn(failure.message, hint: failure.hint) }
        let check = error.hint ?? "check the server of --server, or the file of --store"
        warn(failure.message, hint: "wait: this program tries again by itself; if this does not end, \(check)")
    }

    /// - Parameter text: why the memory of serials could not be written.
    func warn(saving text: String) {
        warn("cannot write the memory of serials: \(text)", hint: "free space on the disk of the state folder")
    }

    func warn(_ text: String, hint: String) {
        if last.exchange(text) != text { console.warn(text, hint: hint) }
    }
}
