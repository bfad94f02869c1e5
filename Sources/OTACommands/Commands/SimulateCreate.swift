import ArgumentParser
import OTAFirmware
import OTASimulator

struct SimulateCreate: Verb {
    static let word = "create"
    static let name = "simulate create"
    static let configuration = CommandConfiguration(commandName: word, abstract: "Make a virtual device.")

    @Argument(help: "What it is called: --device sim:NAME.")
    var name: String

    @Option(help: "The product that it is.")
    var product: String

    @Option(help: "The version that it runs.")
    var version: String

    @Option(help: ArgumentHelp("Its hardware revision.", valueName: "revision"))
    var hardware: UInt16 = 1

    @Option(help: ArgumentHelp("Its security counter.", valueName: "n"))
    var counter: UInt32 = 0

    @Option(help: "What its bootloader takes: raw, esp-idf or mcuboot.")
    var imageFormat = ImageFormat.raw

    @Option(help: ArgumentHelp("Time from boot within which a new image must be confirmed; 0: no way back.", valueName: "seconds"))
    var trial = 60

    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var situation: Situation { Situation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        guard let product = try Self.read(product, "product", ProductName.rule, { ProductName($0) }),
            let version = try Self.read(version, "version", SemanticVersion.rule, { SemanticVersion($0) })
        else { throw CleanExit.helpRequest(self) }
        let devices = try VirtualDevices()
        var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: try trust.store(console).keys)
        configuration.hardware = hardware
        configuration.imageFormat = imageFormat
        configuration.trialSeconds = trial
        try devices.store.create(name, configuration, version: version, securityCounter: counter)
        let made = try devices.store.list().filter { $0.name == name }.map { VirtualDevicesAnswer.Device($0) }
        return VirtualDevicesAnswer(devices: made, text: "sim:\(name) is there: \(product) \(version), hardware revision \(hardware).")
    }
}

extension ImageFormat: @retroactive ExpressibleByArgument {
    public init?(argument: String) {
        guard let format = Self.allCases.first(where: { $0.name == argument }) else { return nil }
        self = format
    }

    public var defaultValueDescription: String { name }
    public static var allValueStrings: [String] { allCases.map(\.name) }
}
