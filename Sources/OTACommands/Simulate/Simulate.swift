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
            The address of a virtual device is --device sim:NAME. A query adds link parameters and faults: \
            --device 'sim:NAME?drop-at=0.4&loss=0.1'. The parameters are mtu, interval, per-event, loss, drop-at, gone-at, \
            gap, reset-at, battery, pace and seed. The first push to sim: creates the virtual device 'demo'.

            Example: otaflash simulate create kitchen --product demo --version 1.0.0 --trust release.pub.pem
            """,
        subcommands: [SimulateCreate.self, SimulateList.self, SimulateRemove.self, SimulateServe.self])
}

/// The command `simulate list`, which lists the virtual devices.
struct SimulateList: Command {
    static let name = "simulate list"
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the virtual devices.",
        discussion: "Example: otaflash simulate list --format json")

    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let store = try VirtualDevices().store
        var devices: [VirtualDevicesAnswer.Device] = []
        var unreadable: [VirtualDevicesAnswer.Unreadable] = []
        for name in try store.names() {
            do throws(VirtualDeviceError) {
                devices.append(.init(try store.summary(of: name)))
            } catch {
                // Another process removed the device after the names were listed.
                guard error.code != .noSuchDevice else { continue }
                let failure = Failure(error, in: Invocation(command: Self.name, device: "sim:\(name)"))
                console.warn("sim:\(name) cannot be read: \(failure.message); \(failure.hint)")
                unreadable.append(.init(address: "sim:\(name)", code: failure.code))
            }
        }
        let none: TerminalLine = "No virtual devices. To create one: otaflash simulate create NAME, or push to sim:"
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

    @Argument(help: "The virtual device's name.", completion: Completions.virtualDevices)
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

/// The result of the commands `simulate create`, `simulate list`, `simulate remove` and `simulate serve`.
struct VirtualDevicesAnswer: CommandAnswer {
    /// The properties of a virtual device.
    struct Device: Encodable, Sendable {
        let address, product, version: String
        /// The update protocol, either `ota` or `smp`.
        let updateProtocol: String
        // The next values are nil for a device that uses SMP.
        let hardware: UInt16?
        let securityCounter: UInt32?

        private enum CodingKeys: String, CodingKey {
            case address, product, version, hardware, securityCounter
            case updateProtocol = "protocol"
        }

        init(_ device: VirtualDeviceSummary) {
            address = "sim:\(device.name)"
            product = device.product
            updateProtocol = device.updateProtocol.rawValue
            version = device.version
            hardware = device.hardware
            securityCounter = device.securityCounter
        }
    }
    /// A virtual device whose files are damaged or from another version of otaflash.
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
        TextTable.rows(
            ["ADDRESS", "PROTOCOL", "PRODUCT", "VERSION", "HARDWARE", "COUNTER"],
            devices.map {
                let own = [$0.hardware.map { "\($0)" }, $0.securityCounter.map { "\($0)" }].map { $0 ?? "-" }
                return [$0.address, $0.updateProtocol, $0.product, $0.version] + own
            })
    }
}
