import ArgumentParser
import OTAClient
import OTACommands
import OTAFleetDevices

/// The options of `gateway run` that find the Bluetooth devices in range.
struct GatewaySearchOptions: ParsableArguments {
    @Flag(help: "Also find the Bluetooth devices in range, and update those that a rollout selects.")
    var all = false

    @Option(
        help: ArgumentHelp(
            "\(AdapterOptions.help). With --all, repeat the option to scan with several adapters; the gateway updates each device over the "
                + "adapter that receives the strongest signal from it. Default: \(AdapterOptions.usual).",
            valueName: "hciN"),
        completion: Completions.adapters)
    var adapter: [String] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("With --all: omit \(AdapterOptions.weakSignals)", valueName: "dBm"),
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
