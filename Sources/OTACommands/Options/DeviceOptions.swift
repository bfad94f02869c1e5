import ArgumentParser

struct DeviceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Which device: sim:NAME for a virtual one, ble:AA:BB:CC:DD:EE:FF or ble:name=NAME over Bluetooth.",
            valueName: "address"))
    var device: String
}
