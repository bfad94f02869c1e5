import ArgumentParser
import Glibc
import OTAClient
import OTAFirmware
import OTAUpdate

/// The options of `push --all`: they select devices that a scan finds.
struct DeviceSelection: ParsableArguments {
    @Flag(
        help: ArgumentHelp(
            "Scan for 10 s, list the devices with the bundle's product, ask you, and update them.",
            discussion: "Not together with --device and --device-file."))
    var all = false

    @Option(
        help: ArgumentHelp(
            "With --all: only this product, or board over SMP; default: the bundle's.",
            discussion: "Required for an MCUboot image, which does not contain a product.", valueName: "product"))
    var product: String?

    @OptionGroup var signal: SignalOptions

    @Option(
        help: ArgumentHelp(
            "With --all: only devices that run such a version, with <, <=, =, >= or > (example: '<1.4.0').",
            valueName: "condition"),
        transform: VersionCondition.init(option:))
    var running: VersionCondition?

    @Option(
        help: ArgumentHelp(
            "With --all: only names like this (example: 'Kitchen*').",
            discussion: "The character * stands for any characters.", valueName: "pattern"))
    var name: String?

    @Option(
        help: ArgumentHelp(
            "With --all: at most this number, the strongest signals.", valueName: "number"),
        transform: WholeNumber.in(1...1000))
    var limit: Int?

    @Flag(help: "With --all: list the devices, and update none.")
    var list = false

    @Flag(
        help: ArgumentHelp(
            "With --all: do not ask before the update.", discussion: "Without a terminal, --yes or --list is required.")
    )
    var yes = false

    /// The first option that the user gave and that requires `--all`; nil if the user gave none.
    private var given: String? {
        let options: [(String, Bool)] = [
            ("--product", product != nil), ("--rssi", signal.rssi != nil), ("--running", running != nil),
            ("--name", name != nil), ("--limit", limit != nil), ("--list", list), ("--yes", yes),
        ]
        return options.first(where: \.1)?.0
    }

    func validate() throws {
        if !all, let given { throw ValidationError("\(given) requires --all.") }
    }

    /// The words of the command line that select the devices. Hints repeat them in the command line that they show.
    var words: [String] {
        guard all else { return [] }
        var words = ["--all"]
        if let product { words += ["--product", product] }
        if let rssi = signal.rssi { words += ["--rssi", "\(rssi)"] }
        if let running { words += ["--running", running.description] }
        if let name { words += ["--name", name] }
        if let limit { words += ["--limit", "\(limit)"] }
        return words + (yes ? ["--yes"] : [])
    }

    /// The parameters of the scan.
    func search(_ updateProtocol: UpdateProtocol?) -> DeviceSearch {
        var search = DeviceSearch()
        search.minimumRSSI = signal.rssi
        search.protocols = updateProtocol.map { [$0] } ?? search.protocols
        return search
    }

    /// Returns the devices to update, at most `limit`, in the order of `found`.
    ///
    /// - Parameter product: the product that a device must report.
    func selected(_ found: [ScannedDevice], product: String) -> [ScannedDevice] {
        let matching = found.filter { device in
            guard device.product == product else { return false }
            if let name, fnmatch(name, device.name ?? "", 0) != 0 { return false }
            guard let running else { return true }
            return device.version.flatMap { SemanticVersion($0) }.map(running.includes) ?? false
        }
        return Array(matching.prefix(limit ?? matching.count))
    }
}

extension VersionCondition {
    fileprivate init(option text: String) throws {
        guard let condition = VersionCondition(text) else {
            throw ValidationError(
                "'\(text)' is not a condition for a version: expected \(Self.rule) (example: --running '<1.4.0').")
        }
        self = condition
    }
}
