import OTAUpdate

/// What the runner's reports become. The runner calls it from one task, in order; hence no lock.
final class ProgressReporter: @unchecked Sendable {
    private var renderer: (any ProgressRenderer)?
    private let console: Console

    init(_ console: Console) {
        renderer = console.renderer
        self.console = console
    }

    func report(_ progress: UpdateProgress, at time: Duration) {
        console.debug("\(Figures.decimal(time.seconds, places: 3)) s: \(progress)")
        renderer?.show(progress, at: time)
    }

    func finish() { renderer?.finish() }
}
