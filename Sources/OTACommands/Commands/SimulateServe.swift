import ArgumentParser

struct SimulateServe: Verb {
    static let name = "simulate serve"
    static let configuration = CommandConfiguration(
        commandName: "serve", abstract: "Put a virtual device on the air, over Bluetooth.")

    @Argument(help: "What it is called.")
    var name: String

    @Option(help: ArgumentHelp("The Bluetooth adapter, such as hci1.", valueName: "adapter"))
    var adapter: String?

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        throw Failure("bluetooth-not-available", .unavailable, "merge", hint: "")
    }
}
