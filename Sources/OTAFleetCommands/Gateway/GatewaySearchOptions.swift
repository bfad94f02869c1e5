import ArgumentParser
import OTAClient
import OTACommands
import OTAFleetDevices

/// The options of `gateway run` that find the Bluetooth devices in range.
struct GatewaySearchOptions: ParsableArguments {
    @Flag(help: "Update all Bluetooth devices in range that a rollout selects, too.")
    var all = false

    @Option(
        help: ArgumentHelp(
            "The Bluetooth adapter of this machine (example: hci0). With --all, repeat the option to scan with several adapters; the gateway "
                + "updates each device over the adapter that receives the strongest signal from it. Default: the first adapter that is switched on.",
            valueName: "hciN"),
        completion: Completions.adapters)
    var adapter: [String] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "With --all: omit devices with a weaker signal than this level, -127 to 20 dBm (example: -60); default: omit none.",
            valueName: "dBm"),
        transform: WholeNumber.in(-127...20))
    var rssi: Int?

    func validate() throws {
        try AdapterOptions.check(adapter)
        if !all, rssi != nil { throw ValidationError("--rssi requires --all.") }
        if !all, adapter.count > 1 { throw ValidationError("Several adapters require --all.") }
    }

    /// The scans; nil without `--all`.
    func radio(ignored: @escaping @Sendable (ScannedDevice) -> Void) -> RadioSearch? {
        guard all else { return nil }
        var search = RadioSearch()
        (search.adapters, search.minimumRSSI, search.ignored) = (adapter, rssi, ignored)
        return search
    }
}
