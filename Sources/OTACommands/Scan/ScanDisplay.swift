/// Shows a running scan: a table that is redrawn on a terminal, else one line for each device.
///
/// Only the actor `ScanBoard` uses it.
final class ScanDisplay: @unchecked Sendable {
    private let console: Console
    private var throttle = Throttle()
    private var drawnLines = 0

    init(_ console: Console) {
        self.console = console
        if console.style == .bar { draw([]) }
    }

    /// Shows the devices.
    ///
    /// - Parameters:
    ///   - appeared: the new device, if any.
    ///   - isNews: true to redraw at once, because no later event may follow; changes of the signal strength are throttled.
    func show(_ devices: [ScannedDevice], appeared: ScannedDevice? = nil, isNews: Bool = false) {
        switch console.style {
        case .bar: if appeared != nil || isNews || throttle.isDue() { draw(devices) }
        case .lines, .json:
            guard let appeared else { return }
            let strength = appeared.rssi.map { ", \($0) dBm" } ?? ""
            console.note("found \(appeared.name.map { "\($0) (\(appeared.address))" } ?? appeared.address)\(strength)")
        case .none, .auto: break
        }
    }

    /// Erases the table before the result is printed.
    func finish() { erase() }

    private func draw(_ devices: [ScannedDevice]) {
        let look = console.look
        let (rows, columns) = (StandardStream.error.rows ?? 24, StandardStream.error.columns ?? 80)
        // A line that wraps or a table that scrolls cannot be redrawn.
        var lines =
            devices.isEmpty ? [] : ScannedDevice.table(devices).map { $0.clipped(to: columns - 1) }
        if lines.count > rows - 2 { lines = Array(lines.prefix(max(0, rows - 2))) }
        console.write(
            [.eraseLines(drawnLines)] + lines.map { .line($0) } + [
                .part(TerminalLine("Scanning \(look.ellipsis)", .dim))
            ])
        drawnLines = lines.count
    }

    private func erase() {
        guard console.style == .bar else { return }
        console.write([.eraseLines(drawnLines)])
        drawnLines = 0
    }
}
