import ArgumentParser
import OTAFirmware
import OTASigning
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

    @Option(
        help: ArgumentHelp("What its bootloader takes: esp-idf, mcuboot, or raw, which is all.", valueName: "format"),
        completion: .list(ImageFormat.allCases.map(\.name)))
    var imageFormat = ImageFormat.raw.name

    @Option(
        help: ArgumentHelp(
            "Time from boot within which a new image must be confirmed; 0: no way back.", valueName: "seconds"))
    var trial = 60

    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var situation: Situation { Situation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let product = try Self.read(product, "product", ProductName.rule) { ProductName($0) }
        let version = try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) }
        let format = try Self.read(imageFormat, "image-format", "raw, esp-idf or mcuboot") { text in
            ImageFormat.allCases.first { $0.name == text }
        }
        let devices = try VirtualDevices()
        var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: try trust.store(console).keys)
        configuration.hardware = hardware
        configuration.imageFormat = format
        configuration.trialSeconds = trial
        try devices.store.create(name, configuration, version: version, securityCounter: counter)
        let made = VirtualDevicesAnswer.Device(try devices.store.summary(of: name))
        let text = "sim:\(name) is there: \(product) \(version), hardware revision \(hardware)."
        return VirtualDevicesAnswer(devices: [made], text: text)
    }
}
