import ArgumentParser
import OTAFirmware
import OTASimulator

struct SimulateServe: Verb {
    static let name = "simulate serve"
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Put a virtual device on the air, over Bluetooth, until a signal stops it.")

    @Argument(help: "What it is called.")
    var name: String

    @Option(help: ArgumentHelp("The Bluetooth adapter, such as hci1.", valueName: "adapter"))
    var adapter: String?

    @OptionGroup(title: "Output options") var options: OutputOptions

    var situation: Situation { Situation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) async throws -> VirtualDevicesAnswer {
        try await Wiring(console: console, situation: situation).serve(name, over: adapter)
        let devices = try VirtualDevices().store.list().filter { $0.name == name }
        let text = devices.map {
            "sim:\($0.name) has been taken off the air; it runs \($0.product.text) \($0.version)."
        }
        return VirtualDevicesAnswer(
            devices: devices.map { VirtualDevicesAnswer.Device($0) }, text: text.joined(separator: "\n"))
    }
}
