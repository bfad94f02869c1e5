import ArgumentParser
import OTAFirmware
import OTASimulator

struct SimulateServe: Verb {
    static let name = "simulate serve"
    static let configuration = CommandConfiguration(
        commandName: "serve",
        abstract: "Put a virtual device on the air, or where UDP or a serial line reaches it, until a signal stops it.")

    @Argument(help: "What it is called.")
    var name: String

    @Option(help: ArgumentHelp("The Bluetooth adapter, such as hci1.", valueName: "adapter"))
    var adapter: String?

    @Option(
        help: ArgumentHelp(
            "In place of Bluetooth: listen for datagrams at this port; 0: at any that is free.",
            valueName: "[host:]port"))
    var udp: String?

    @Flag(help: "In place of Bluetooth: behind a pseudo-terminal, whose path is told.")
    var serial = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        let given = [(adapter != nil, "--adapter"), (udp != nil, "--udp"), (serial, "--serial")].filter(\.0).map(\.1)
        if given.count > 1 { throw ValidationError("'\(given[0])' and '\(given[1])' exclude each other.") }
    }

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) async throws -> VirtualDevicesAnswer {
        try await Wiring(console: console, invocation: invocation).serve(name, over: transport)
        let devices = try VirtualDevices().store.list().filter { $0.name == name }
        let lines: [TerminalLine] = devices.map {
            "sim:\($0.name) is reachable no more; it runs \($0.product) \($0.version)."
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
