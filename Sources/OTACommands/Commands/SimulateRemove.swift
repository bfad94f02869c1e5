import ArgumentParser
import OTAClient
import OTASimulator

/// Removes a virtual device.
struct SimulateRemove: Verb {
    static let name = "simulate remove"
    static let configuration = CommandConfiguration(commandName: "remove", abstract: "Remove a virtual device.")

    @Argument(help: "The virtual device's name.")
    var name: String

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let devices = try VirtualDevices()
        let lock = try devices.lock(name)
        defer { withExtendedLifetime(lock) {} }
        try devices.store.remove(name)
        return VirtualDevicesAnswer(devices: [], lines: ["Removed sim:\(name)."])
    }
}
