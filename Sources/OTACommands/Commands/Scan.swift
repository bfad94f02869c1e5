import ArgumentParser

struct Scan: Verb {
    static let name = "scan"
    static let configuration = CommandConfiguration(
        commandName: name, abstract: "Show the devices in reach that can be updated.")

    @Option(help: ArgumentHelp("How long to look, in seconds.", valueName: "seconds"))
    var timeout = 10.0

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer { throw Failure.bluetoothNotAvailable }
}
