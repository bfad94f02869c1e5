import ArgumentParser
import BlueZ
import OTAClient
import OTAUpdate

/// Lists the devices in range.
struct Scan: Verb {
    static let name = "scan"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "List the updatable Bluetooth devices in range, strongest signal first.",
        discussion: """
            Advertising data does not contain product and version, so scan connects briefly to each device. --no-read \
            prevents this. Finding no devices is not an error (exit 0).
            """)

    @Option(help: TimeLimit.help("default: 10s"), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "Show only devices with at least this signal strength (example: -60); default: any.", valueName: "dBm"))
    var rssi: Int?

    @Option(help: ArgumentHelp("Show only devices with this name; default: any.", valueName: "name"))
    var name: String?

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp(
            "Show only devices with this protocol: ota or smp; default: both.", valueName: "name"))
    var updateProtocol: UpdateProtocol?

    @Flag(help: "Include devices that cannot be updated.")
    var all = false

    @Flag(help: "Do not connect to read product and version.")
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
        let devices = try await Wiring(console: console, invocation: invocation).scan(search, over: radio.adapter)
        return ScanAnswer(devices: devices, isForAll: all)
    }
}

/// The result of `scan`.
struct ScanAnswer: Answer {
    let devices: [ScannedDevice]
    let isForAll: Bool

    private enum CodingKeys: CodingKey {
        case devices
    }

    var lines: [TerminalLine] {
        let what: TerminalLine = isForAll ? "No device in range." : "No updatable device in range."
        return devices.isEmpty ? [what] : ScannedDevice.table(devices)
    }
}
