import OTAUpdate

/// Passes the progress of the runner to the log and the renderer. The runner calls it from one task, in order, so it has no lock.
final class ProgressReporter: @unchecked Sendable {
    private var renderer: (any ProgressRenderer)?
    private let console: Console

    init(_ console: Console) {
        renderer = console.renderer
        self.console = console
    }

    func report(_ progress: UpdateProgress, at time: Duration) {
        console.debug("\(Figures.decimal(time.seconds, places: 3)) s: \(ProgressText.logLine(for: progress))")
        renderer?.show(progress, at: time)
    }

    func finish() { renderer?.finish() }
}
