import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

/// The command `simulate create`, which creates a virtual device.
struct SimulateCreate: Command {
    static let word = "create"
    static let name = "simulate create"
    static let configuration = CommandConfiguration(
        commandName: word, abstract: "Create a virtual device.",
        discussion: "Example: otaflash simulate create kitchen --product demo --version 1.0.0 --trust release.pub.pem")

    @Argument(help: "The name; the address is sim:NAME.")
    var name: String

    @Option(help: "The product name; with --protocol smp, the board name.")
    var product: String

    @Option(help: "The running version (example: 1.0.0).")
    var version: String

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp("The protocol: ota (GATT OTA profile) or smp (MCUmgr).", valueName: "protocol"))
    var updateProtocol = UpdateProtocol.ota

    @Option(
        help: ArgumentHelp("The hardware revision; default: 1.", valueName: "revision"),
        transform: WholeNumber.in(0...UInt16.max))
    var hardware: UInt16?

    @Option(
        help: ArgumentHelp("The security counter; default: 0.", valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Option(
        help: ArgumentHelp(
            "The accepted image format: esp-idf, mcuboot or raw; default: any format.", valueName: "format"),
        completion: .list(ImageFormat.allCases.map(\.name)))
    var imageFormat: String?

    @Option(
        help: ArgumentHelp(
            "The trial time, from boot until rollback; 0: no trial, no rollback; default: 60.",
            valueName: "seconds"),
        transform: WholeNumber.in(0...65535))
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
        let trusted = try trust.store(console)
        switch updateProtocol {
        case .ota:
            guard !trusted.keys.isEmpty else {
                throw KeyError(
                    .noTrustedKey, "no trusted key is an Ed25519 key, and the GATT OTA profile accepts only bundles",
                    hint: "create an Ed25519 key: otaflash keygen NAME; for MCUboot images: --protocol smp")
            }
            var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: trusted.keys)
            configuration.hardware = hardware ?? configuration.hardware
            configuration.imageFormat = format
            configuration.trialSeconds = trial ?? configuration.trialSeconds
            try store.create(name, configuration, version: version, securityCounter: counter ?? 0)
        case .smp:
            var configuration = VirtualSMPConfiguration(trust: trusted)
            configuration.board = product.text
            smp.apply(to: &configuration)
            try store.create(name, configuration, version: version)
        }
        let made = try store.summary(of: name)
        let rest = made.hardware.map { ", hardware revision \($0)" } ?? ", protocol SMP"
        return VirtualDevicesAnswer(
            devices: [.init(made)], lines: ["Created sim:\(name): \(made.product) \(made.version)\(rest)."])
    }

    /// Refuses an option that applies only to the other protocol.
    private func checkOptions() throws(Failure) {
        let own = [
            (hardware != nil, "--hardware"), (counter != nil, "--counter"), (imageFormat != nil, "--image-format"),
            (trial != nil, "--trial"),
        ].first(where: \.0)?.1
        let (option, other) = updateProtocol == .ota ? (smp.given, "smp") : (own, "ota")
        guard let option else { return }
        throw Failure.usage(
            "\(option) requires --protocol \(other), but this device uses \(updateProtocol.rawValue)",
            hint: "remove \(option), or use --protocol \(other)")
    }
}

/// The options of a virtual device that uses SMP.
struct SMPDeviceOptions: ParsableArguments {
    /// An ability of the device, which the option `--without` removes.
    enum Ability: String, ExpressibleByArgument, CaseIterable, Sendable {
        /// The device reports the number and the size of its buffers.
        case parameters
        /// The device reassembles a packet from several values.
        case reassembly
        /// The device reports the sizes of its slots.
        case slots
        /// The device can mark an image for the next boot.
        case marks
        /// The device reports the name of its board.
        case board
    }

    @Option(
        help: ArgumentHelp("The number of packet buffers, 1 to 64; default: 4 (SMP only).", valueName: "n"),
        transform: WholeNumber.in(1...64))
    var buffers: Int?

    @Option(
        help: ArgumentHelp(
            "The longest packet, header included, 64 to 65535; default: 2475 (SMP only).", valueName: "bytes"),
        transform: WholeNumber.in(64...65535))
    var bufferSize: Int?

    @Option(
        help: ArgumentHelp(
            "Remove an ability: parameters, reassembly, slots, marks or board; repeatable (SMP only).",
            valueName: "ability"))
    var without: [Ability] = []

    @Option(
        help: ArgumentHelp(
            "Time from a packet to its answer, 0 to 60000; default: 0 (SMP only).", valueName: "milliseconds"),
        transform: WholeNumber.in(0...60000))
    var answerTime: Int?

    @Option(
        help: ArgumentHelp(
            "Time from an answer until its buffers are free, 0 to 60000; default: 0 (SMP only).",
            valueName: "milliseconds"),
        transform: WholeNumber.in(0...60000))
    var releaseTime: Int?

    /// The name of the first SMP option that the user gave, for error messages; nil: no such option.
    var given: String? {
        [
            (buffers != nil, "--buffers"), (bufferSize != nil, "--buffer-size"), (!without.isEmpty, "--without"),
            (answerTime != nil, "--answer-time"), (releaseTime != nil, "--release-time"),
        ].first(where: \.0)?.1
    }

    func apply(to configuration: inout VirtualSMPConfiguration) {
        configuration.bufferCount = buffers ?? configuration.bufferCount
        configuration.bufferSize = bufferSize ?? configuration.bufferSize
        configuration.answerDelay = answerTime.map { .milliseconds($0) } ?? configuration.answerDelay
        configuration.releaseDelay = releaseTime.map { .milliseconds($0) } ?? configuration.releaseDelay
        configuration.reportsParameters = !without.contains(.parameters)
        configuration.reassembles = !without.contains(.reassembly)
        configuration.reportsSlots = !without.contains(.slots)
        configuration.marksImages = !without.contains(.marks)
        configuration.reportsBoard = !without.contains(.board)
    }
}
