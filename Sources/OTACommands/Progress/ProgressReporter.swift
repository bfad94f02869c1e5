import Logging
import OTAUpdate

/// What the runner's reports become. The runner calls it from one task, in order; hence no lock.
final class ProgressReporter: @unchecked Sendable {
    private var renderer: (any ProgressRenderer)?
    private let log: Logger

    init(_ console: Console) {
        renderer = console.renderer
        log = console.log
    }

    func report(_ progress: UpdateProgress, at time: Duration) {
        log.debug("session", metadata: ["at": "\(Figures.decimal(time.seconds, places: 3))", "progress": "\(progress)"])
        renderer?.show(progress, at: time)
    }

    func finish() { renderer?.finish() }
}
