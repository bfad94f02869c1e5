import ArgumentParser
import OTASimulator

struct SimulateRemove: Verb {
    static let name = "simulate remove"
    static let configuration = CommandConfiguration(commandName: "remove", abstract: "Remove a virtual device.")

    @Argument(help: "What it is called.")
    var name: String

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let devices = try VirtualDevices()
        let lock = try devices.lock(name, in: invocation)
        defer { withExtendedLifetime(lock) {} }
        try devices.store.remove(name)
        return VirtualDevicesAnswer(devices: [], lines: ["sim:\(name) is gone."])
    }
}
