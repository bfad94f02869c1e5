import Gauntlet
import OTAUpdate

/// The totals of many worlds.
struct Figures: Sendable {
    private(set) var failed = 0
    private var worlds = 0
    private var confirmed = 0
    private var restarts = 0
    private var hybrid = 0
    private var links = 0
    private var resentBytes = 0
    private var errors: [String: Int] = [:]
    /// The combined hash of all transcripts, independent of their order.
    private var transcripts: UInt64 = 0

    mutating func add(_ ending: Gauntlet.Ending) {
        worlds += 1
        if !ending.offences.isEmpty { failed += 1 }
        if ending.isConfirmed { confirmed += 1 }
        if let error = ending.error { errors[error.rawValue, default: 0] += 1 }
        restarts += ending.restarts
        hybrid += ending.isHybrid ? 1 : 0
        links += ending.links
        resentBytes += ending.resentBytes
        transcripts &+= ending.transcriptHash
    }

    mutating func add(_ other: Figures) {
        worlds += other.worlds
        failed += other.failed
        confirmed += other.confirmed
        restarts += other.restarts
        hybrid += other.hybrid
        links += other.links
        resentBytes += other.resentBytes
        errors.merge(other.errors, uniquingKeysWith: +)
        transcripts &+= other.transcripts
    }

    func line(after duration: Duration) -> String {
        let reasons = errors.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.key) \($0.value)" }
        return """
            worlds \(worlds), lost \(failed), confirmed amid faults \(confirmed), ended with a reason \(worlds - confirmed) \
            (\(reasons.joined(separator: ", "))), restarts \(restarts), played with hybrid signatures \(hybrid), links \(links), bytes sent again \(resentBytes), \
            transcripts \(String(transcripts, radix: 16)), \(duration.components.seconds) s
            """
    }
}
