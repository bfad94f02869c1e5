import OTAClient

/// Shows a running scan: a table that is redrawn on a terminal, else one line for each device.
///
/// Only one scan uses it, and a scan reports one change after the other.
final class ScanDisplay: @unchecked Sendable {
    private let console: Console
    private var throttle = Throttle()
    private var drawnLines = 0

    init(_ console: Console) {
        self.console = console
        if console.style == .bar { draw([]) }
    }

    /// Shows the devices after a change. Changes of the signal strength are throttled.
    func show(_ change: DeviceScan.Change, _ devices: [ScannedDevice]) {
        var appeared: ScannedDevice?
        var isNews = false
        switch change {
        case .appeared(let device): appeared = device
        // No later event may follow, so this is shown at once.
        case .identified: isNews = true
        case .changed: break
        }
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

extension ScannedDevice {
    /// The devices as a table for people.
    static func table(_ devices: [ScannedDevice]) -> [TerminalLine] {
        TextTable.rows(
            ["NAME", "ADDRESS", "RSSI", "PRODUCT", "VERSION", "PROTOCOLS"],
            devices.map { device in
                [
                    device.name ?? "–", device.address, device.rssi.map { "\($0) dBm" } ?? "–",
                    device.product ?? "–", device.version ?? "–",
                    device.protocols.isEmpty ? "–" : device.protocols.joined(separator: ","),
                ]
            })
    }
}
