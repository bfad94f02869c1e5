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

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp("What it speaks: ota (the GATT OTA profile) or smp (MCUmgr).", valueName: "protocol"))
    var updateProtocol = UpdateProtocol.ota

    @Option(help: ArgumentHelp("Its hardware revision; else 1.", valueName: "revision"))
    var hardware: UInt16?

    @Option(help: ArgumentHelp("Its security counter; else 0.", valueName: "n"))
    var counter: UInt32?

    @Option(
        help: ArgumentHelp(
            "What its bootloader takes: esp-idf, mcuboot, or raw, which is all and the default.", valueName: "format"),
        completion: .list(ImageFormat.allCases.map(\.name)))
    var imageFormat: String?

    @Option(
        help: ArgumentHelp(
            "Time from boot within which a new image must be confirmed; 0: no way back; else 60.",
            valueName: "seconds"))
    var trial: Int?

    @OptionGroup var smp: SMPDeviceOptions

    @OptionGroup var trust: TrustOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let product = try Self.read(product, "product", ProductName.rule) { ProductName($0) }
        let version = try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) }
        let format = try Self.read(imageFormat, "image-format", "raw, esp-idf or mcuboot") { text in
            ImageFormat.allCases.first { $0.name == text }
        }
        try checkOptions()
        let store = try VirtualDevices().store
        let keys = try trust.store(console).keys
        switch updateProtocol {
        case .ota:
            var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: keys)
            configuration.hardware = hardware ?? configuration.hardware
            configuration.imageFormat = format ?? configuration.imageFormat
            configuration.trialSeconds = trial ?? configuration.trialSeconds
            try store.create(name, configuration, version: version, securityCounter: counter ?? 0)
        case .smp:
            var configuration = VirtualSMPConfiguration(trustedKeys: keys)
            configuration.board = product.text
            smp.apply(to: &configuration)
            try store.create(name, configuration, version: version)
        }
        let made = try store.summary(of: name)
        let rest = made.hardware.map { ", hardware revision \($0)" } ?? ", which speaks SMP"
        return VirtualDevicesAnswer(
            devices: [.init(made)], lines: ["sim:\(name) is there: \(made.product) \(made.version)\(rest)."])
    }

    /// An option of the one kind is not passed over in silence by the other.
    private func checkOptions() throws(Failure) {
        let own = [
            (hardware != nil, "--hardware"), (counter != nil, "--counter"), (imageFormat != nil, "--image-format"),
            (trial != nil, "--trial"),
        ].first(where: \.0)?.1
        let (option, other) = updateProtocol == .ota ? (smp.given, "smp") : (own, "ota")
        guard let option else { return }
        throw Failure.usage(
            "\(option) is of a device that speaks \(other), and this one speaks \(updateProtocol.rawValue)",
            hint: "leave out \(option), or type --protocol \(other)")
    }
}
