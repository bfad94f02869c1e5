import ArgumentParser

struct DeviceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Which device: ble:AA:BB:CC:DD:EE:FF, ble:name=NAME or ble: over Bluetooth, sim:NAME for a virtual one.",
            valueName: "address"))
    var device: String

    @OptionGroup var radio: RadioOptions

    /// - Throws: a usage failure where an option is for another bearer.
    func address() throws -> DeviceAddress {
        let address = try DeviceAddress(device)
        guard address.isSimulated, let option = radio.given else { return address }
        throw Failure.usage(
            "\(option) is for Bluetooth, and \(device) is a virtual device", hint: "leave out \(option)")
    }
}
