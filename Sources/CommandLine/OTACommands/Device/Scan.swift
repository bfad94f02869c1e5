import ArgumentParser
import BlueZ
import OTAClient
import OTAUpdate

/// The command `scan`, which lists the Bluetooth devices in range.
struct Scan: Command {
    static let name = "scan"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "List the Bluetooth devices in range that can be updated.",
        discussion: """
            Example: otaflash scan --timeout 30s

            scan lists devices with one of the update protocols of 'otaflash push': the GATT OTA profile or SMP. The device with \
            the strongest signal is listed first. scan connects briefly to each device and reads its product and version, because \
            the advertisements do not contain them. Finding no devices is not an error (exit 0).
            """)

    @Option(help: TimeLimit.help("The duration of the scan", "10s"), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Omit \(AdapterOptions.weakSignals)", valueName: "dBm"),
        transform: WholeNumber.in(-127...20))
    var rssi: Int?

    @Option(help: ArgumentHelp("List only devices with this name; default: any name.", valueName: "name"))
    var name: String?

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp(
            "List only devices with this protocol; default: both.", valueName: "protocol"))
    var updateProtocol: UpdateProtocol?

    @Flag(help: "Also list devices that cannot be updated; not together with --protocol.")
    var all = false

    @Flag(help: "Do not connect to the devices; their product and version are then unknown.")
    var noRead = false

    @OptionGroup var radio: AdapterOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        guard !all || updateProtocol == nil else {
            throw ValidationError("'--all' and '--protocol' cannot be used together.")
        }
    }

    func answer(_ console: Console) async throws -> ScanAnswer {
        var search = DeviceSearch()
        search.duration = timeout?.duration ?? search.duration
        search.minimumRSSI = rssi
        search.name = name
        search.protocols = all ? [] : updateProtocol.map { [$0] } ?? search.protocols
        search.reads = !noRead
        let devices = try await console.scan(search, over: radio.adapter.map { [$0] } ?? [])
        return ScanAnswer(devices: devices, isForAll: all)
    }
}

/// The result of the command `scan`.
struct ScanAnswer: TableAnswer {
    let devices: [ScannedDevice]
    let isForAll: Bool

    private enum CodingKeys: CodingKey {
        case devices
    }

    func text(fitting width: Int?) -> [TerminalLine] {
        let what: TerminalLine = isForAll ? "No device in range." : "No updatable device in range."
        return devices.isEmpty ? [what] : ScannedDevice.table(devices).lines(fitting: width)
    }
}

/// Shows the devices during a scan. With the style `bar`, it redraws a table after each change. With the styles `lines` and `json`, it
/// prints a note for each new device.
///
/// `@unchecked Sendable` is safe: only one scan uses a display, and a scan reports its changes one after the other.
final class ScanDisplay: @unchecked Sendable {
    private let console: Console
    private var throttle = Throttle()
    private var drawnLines = 0

    init(_ console: Console) {
        self.console = console
        if console.style == .bar { draw([]) }
    }

    /// Shows the devices after a change. A `.changed` event, for example a new signal strength, updates the table at most 10 times in a
    /// second.
    func show(_ change: DeviceScan.Change, _ devices: [ScannedDevice]) {
        var appeared: ScannedDevice?
        var isNews = false
        switch change {
        case .appeared(let device): appeared = device
        // This change can be the last event of the scan, so the display is updated immediately.
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
        let terminal = console.terminal
        let (rows, columns) = (StandardStream.error.rows ?? 24, StandardStream.error.columns ?? 80)
        // The table must fit on the terminal, because wrapped or scrolled lines cannot be redrawn.
        var lines = devices.isEmpty ? [] : ScannedDevice.table(devices).lines(fitting: columns - 1)
        lines = lines.map { $0.clipped(to: columns - 1) }
        if lines.count > rows - 2 { lines = Array(lines.prefix(max(0, rows - 2))) }
        console.write(
            [.eraseLines(drawnLines)] + lines.map { .line($0) } + [
                .part(TerminalLine("Scanning \(terminal.ellipsis)", .dim))
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
    /// Returns the devices as a table for the user.
    static func table(_ devices: [ScannedDevice]) -> TextTable {
        let hasAdapters = devices.contains { $0.adapter != nil }
        return TextTable(
            ["NAME", .identifier("ADDRESS"), "RSSI"] + (hasAdapters ? ["ADAPTER"] : []) + [
                "PRODUCT", "VERSION", "PROTOCOLS",
            ],
            devices.map { device in
                [device.name ?? "–", device.address, device.rssi.map { "\($0) dBm" } ?? "–"]
                    + (hasAdapters ? [device.adapter ?? "–"] : []) + [
                        device.product ?? "–", device.version ?? "–",
                        device.protocols.isEmpty ? "–" : device.protocols.joined(separator: ","),
                    ]
            })
    }
}
