import ArgumentParser

/// Which protocol is to be spoken; `auto`: the one that device and file have in common.
enum ProtocolOption: String, ExpressibleByArgument, CaseIterable, Sendable {
    case auto, ota, smp

    /// Nil: any.
    var forced: UpdateProtocol? {
        switch self {
        case .auto: nil
        case .ota: .ota
        case .smp: .smp
        }
    }
}

struct DeviceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Which device: ble:AA:BB:CC:DD:EE:FF, ble:name=NAME or ble: over Bluetooth, udp:HOST, serial:/dev/ttyACM0, or "
                + "sim:NAME for a virtual one.",
            valueName: "address"))
    var device: String

    @Option(
        name: .customLong("protocol"),
        help: "What to speak: ota (the GATT OTA profile), smp (MCUmgr), or auto, which sees what the device offers.")
    var updateProtocol = ProtocolOption.auto

    @Option(help: TimeLimit.help("By default there is no limit."), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @OptionGroup var radio: RadioOptions

    /// How long the command may take; nil: no limit.
    var limit: Duration? { timeout?.duration }

    /// - Throws: a usage failure where an option is for another transport.
    func address() throws -> DeviceAddress {
        let address = try DeviceAddress(device)
        if !address.isBluetooth, let option = radio.given {
            let what = address.isSimulated ? "a virtual device" : "not reached by it"
            throw Failure.usage("\(option) is for Bluetooth, and \(device) is \(what)", hint: "leave out \(option)")
        }
        if let forced = updateProtocol.forced, !address.protocols.contains(forced) {
            throw Failure.usage(
                "--protocol \(forced.rawValue) cannot be spoken with \(device): it goes over Bluetooth only",
                hint: "leave out --protocol, or type --protocol smp")
        }
        return address
    }
}
