import ArgumentParser
import OTAClient
import OTASimulator
import OTAUpdate

/// The command group `simulate`, whose subcommands use virtual devices.
struct Simulate: ParsableCommand, CommandGroupWithHint {
    static let hint =
        "create a virtual device: otaflash simulate create NAME --product demo --version 1.0.0 --trust KEY.pub.pem"
    static let configuration = CommandConfiguration(
        commandName: "simulate", abstract: "Create and serve virtual devices, for experiments and tests.",
        discussion: """
            Example: otaflash simulate create kitchen --product demo --version 1.0.0 \\
                       --trust release.pub.pem
                     otaflash push app.bin.otaf --trust release.pub.pem \\
                       --device 'sim:kitchen?drop-at=0.4&loss=0.1'

            The address of a virtual device is sim:NAME, or sim:NAME?PARAMETER&PARAMETER. The parameters set properties of the \
            link or inject faults. FRACTION is a number from 0 to 1, such as 0.4.

              mtu=BYTES           the ATT MTU, 23 to 517; default: 247
              interval=TIME       the connection interval, 7.5ms to 0.5s; default: 15ms
              per-event=N         packets in a connection event, 1 to 100; default: 6
              loss=FRACTION       lose this fraction of the connection events; default: 0
              gap=FRACTION        discard this fraction of the received chunks of the
                                  image; default: 0
              drop-at=FRACTION    break the link when the device has received this
                                  fraction of the image; for several breaks: 0.3,0.8
              gone-at=FRACTION    break the link at this fraction, and keep the device
                                  out of range until the command ends
              reset-at=FRACTION   cut the power of the device at this fraction;
                                  for several cuts: 0.3,0.8
              battery=PERCENT     the battery level, 0 to 100; default: no battery.
                                  GATT OTA profile only
              pace=virtual        use a virtual clock, so that an update takes less
                                  than a second; default: real
              seed=N              the seed of all random events; default: 1

            The address 'sim:' (without a name) is the virtual device 'demo'. The first push to this address creates the device, with version 0.0.0. For a bundle, it has the GATT OTA profile and the product of the bundle. For an MCUboot image, it has SMP. Before the first push, a command such as 'otaflash status --device sim:' fails (exit 69).
            """,
        subcommands: [SimulateCreate.self, SimulateList.self, SimulateRemove.self, SimulateServe.self])
}

/// The argument of a subcommand of `simulate`: the name of a virtual device. Its address `sim:NAME` is also accepted, because `simulate
/// list` prints addresses.
struct VirtualDeviceName: ExpressibleByArgument {
    let text: String

    init(argument: String) {
        guard argument.hasPrefix("sim:") else {
            text = argument
            return
        }
        let name = argument.dropFirst("sim:".count)
        text = name.isEmpty ? VirtualDevices.demoName : String(name)
    }
}

/// The command `simulate list`, which lists the virtual devices.
struct SimulateList: Command {
    static let name = "simulate list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the virtual devices.",
        discussion: "Example: otaflash simulate list --format json")

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let list = try VirtualDevices().store.list()
        let devices = list.devices.map { VirtualDevicesAnswer.Device($0) }
        let unreadable = list.unreadable.map { name, error in
            let failure = Failure(error, in: Invocation(command: Self.name, device: "sim:\(name)"))
            console.warn("sim:\(name) cannot be read: \(failure.message); \(failure.hint)")
            return VirtualDevicesAnswer.Unreadable(address: "sim:\(name)", code: failure.code)
        }
        let none: TerminalLine =
            "No virtual devices. To create one: otaflash simulate create NAME --product demo --version 1.0.0 --trust KEY.pub.pem; or push to sim:"
        let lines = devices.isEmpty && unreadable.isEmpty ? [none] : VirtualDevicesAnswer.table(devices)
        return VirtualDevicesAnswer(
            devices: devices, lines: lines, unreadable: unreadable.isEmpty ? nil : unreadable)
    }
}

/// The command `simulate remove`, which removes a virtual device.
struct SimulateRemove: Command {
    static let name = "simulate remove"
    static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove a virtual device.",
        discussion: "Example: otaflash simulate remove kitchen")

    @Argument(help: "The name of the virtual device, or its address sim:NAME.", completion: Completions.virtualDevices)
    var name: VirtualDeviceName

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name.text)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let name = name.text
        let devices = try VirtualDevices()
        let lock = try devices.lock(name)
        defer { withExtendedLifetime(lock) {} }
        try devices.store.remove(name)
        return VirtualDevicesAnswer(devices: [], lines: ["Removed sim:\(name)."])
    }
}

/// The result of the commands `simulate create`, `simulate list`, `simulate remove` and `simulate serve`.
struct VirtualDevicesAnswer: CommandAnswer {
    /// The properties of a virtual device.
    struct Device: Encodable, Sendable {
        let address, product, version: String
        /// The update protocol, either `ota` or `smp`.
        let updateProtocol: String
        // The next three members are nil for a device that uses SMP.
        let hardware: UInt16?
        let securityCounter: UInt32?
        /// The number of trusted keys that must have signed a bundle.
        let requiredSignatures: Int?

        private enum CodingKeys: String, CodingKey {
            case address, product, version, hardware, securityCounter, requiredSignatures
            case updateProtocol = "protocol"
        }

        init(_ device: VirtualDeviceSummary) {
            address = "sim:\(device.name)"
            product = device.product
            updateProtocol = device.updateProtocol.rawValue
            version = device.version
            hardware = device.hardware
            securityCounter = device.securityCounter
            requiredSignatures = device.requiredSignatures
        }
    }
    /// A virtual device that cannot be read, for example because its files are damaged or from a newer version of otaflash.
    struct Unreadable: Encodable, Sendable {
        let address, code: String
    }
    let devices: [Device]
    let lines: [TerminalLine]
    var unreadable: [Unreadable]?

    private enum CodingKeys: CodingKey {
        case devices, unreadable
    }

    /// Returns the devices as a table for the user.
    static func table(_ devices: [Device]) -> [TerminalLine] {
        TextTable(
            [.identifier("ADDRESS"), "PROTOCOL", "PRODUCT", "VERSION", "HARDWARE", "COUNTER"],
            devices.map {
                let own = [$0.hardware.map { "\($0)" }, $0.securityCounter.map { "\($0)" }].map { $0 ?? "-" }
                return [$0.address, $0.updateProtocol, $0.product, $0.version] + own
            }
        ).lines()
    }
}
