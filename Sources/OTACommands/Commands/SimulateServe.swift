import ArgumentParser
import OTAClient
import OTAFirmware
import OTASimulator

/// Serves a virtual device to other programs.
struct SimulateServe: Verb {
    static let name = "simulate serve"
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Serve a virtual device over Bluetooth, UDP or a pseudo-terminal until SIGINT or SIGTERM.")

    @Argument(help: "The virtual device's name.")
    var name: String

    @Option(
        help: ArgumentHelp(
            "The Bluetooth adapter (example: hci1); default: the first one switched on.", valueName: "adapter"))
    var adapter: String?

    @Option(
        help: ArgumentHelp(
            "Serve over UDP at this port instead of Bluetooth; 0: any free port (SMP only).",
            valueName: "[host:]port"))
    var udp: String?

    @Flag(help: "Serve over a pseudo-terminal instead; its path is printed on stderr (SMP only).")
    var serial = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        let given = [(adapter != nil, "--adapter"), (udp != nil, "--udp"), (serial, "--serial")].filter(\.0).map(\.1)
        if given.count > 1 { throw ValidationError("'\(given[0])' and '\(given[1])' cannot be used together.") }
    }

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) async throws -> VirtualDevicesAnswer {
        try await Wiring(console: console, invocation: invocation).serve(name, over: transport)
        let devices = try VirtualDevices().store.list().filter { $0.name == name }
        let lines: [TerminalLine] = devices.map {
            "sim:\($0.name) is no longer served; it runs \($0.product) \($0.version)."
        }
        return VirtualDevicesAnswer(
            devices: devices.map { VirtualDevicesAnswer.Device($0) }, lines: lines)
    }

    private var transport: ServedTransport {
        get throws(Failure) {
            if serial { return .serial }
            if let udp { return try .udp(parsing: udp) }
            return .bluetooth(adapter: adapter)
        }
    }
}
