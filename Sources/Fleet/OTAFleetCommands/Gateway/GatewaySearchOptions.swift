import ArgumentParser
import OTAClient
import OTACommands

/// The options of `gateway run` that find the Bluetooth devices in range.
struct GatewaySearchOptions: ParsableArguments {
    @Flag(
        help: ArgumentHelp(
            "Also update the Bluetooth devices in range that a rollout selects.",
            discussion: "Required for several adapters (--adapter)."))
    var all = false

    @OptionGroup var adapters: AdapterList
    @OptionGroup var signal: SignalOptions

    func validate() throws {
        if !all, signal.rssi != nil { throw ValidationError("--rssi requires --all.") }
        if !all, adapters.adapter.count > 1 { throw ValidationError("Several adapters require --all.") }
    }

    /// The scans; nil without `--all`.
    func radio(ignored: @escaping @Sendable (ScannedDevice) -> Void) -> RadioSearch? {
        guard all else { return nil }
        var search = RadioSearch()
        (search.adapters, search.minimumRSSI, search.ignored) = (adapters.adapter, signal.rssi, ignored)
        return search
    }
}
