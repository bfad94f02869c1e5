import ArgumentParser
import BlueZ

struct Scan: Verb {
    static let name = "scan"
    static let isLong = true
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Show the devices in reach that can be updated, the nearest first.",
        discussion: """
            A device tells its product and version only when it is connected, so each is connected for a moment, one \
            after the other; --no-read leaves that out.
            """)

    @Option(help: TimeLimit.help("Default 10s."), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Leave out what comes in weaker, such as -60: what is farther away.", valueName: "dBm"))
    var rssi: Int?

    @Option(help: ArgumentHelp("Only devices with this name.", valueName: "name"))
    var name: String?

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp(
            "Only devices that are updated by this protocol: ota, smp; by default both.", valueName: "name"))
    var updateProtocol: UpdateProtocol?

    @Flag(help: "Also devices that cannot be updated.")
    var all = false

    @Flag(help: "Do not connect to find out product and version.")
    var noRead = false

    @OptionGroup var radio: AdapterOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        guard !all || updateProtocol == nil else {
            throw ValidationError("'--all' and '--protocol' contradict each other: leave one of them out.")
        }
    }

    func answer(_ console: Console) async throws -> ScanAnswer {
        let search = DeviceSearch(
            duration: timeout?.duration ?? .seconds(10), minimumRSSI: rssi, name: name,
            protocols: all ? [] : updateProtocol.map { [$0] } ?? UpdateProtocol.allCases, reads: !noRead)
        let devices = try await Wiring(console: console, invocation: invocation).scan(search, over: radio.adapter)
        return ScanAnswer(devices: devices, isForAll: all)
    }
}

struct ScanAnswer: Answer {
    let devices: [ScannedDevice]
    let isForAll: Bool

    private enum CodingKeys: CodingKey {
        case devices
    }

    var lines: [TerminalLine] {
        let what: TerminalLine = isForAll ? "No device is in reach." : "No device that can be updated is in reach."
        return devices.isEmpty ? [what] : ScannedDevice.table(devices)
    }
}
