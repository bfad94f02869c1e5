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
        discussion: """
            The device accepts only files that are signed by a key of --trust.

            A new device has all of the following abilities. --without removes one of them. With --protocol ota:

              encodings   accept compressed images
              base        accept deltas from the running image; requires encodings

            A device without encodings accepts only complete, uncompressed images.

            With --protocol smp:

              parameters  report the number and the size of the buffers
              reassembly  accept a packet that is split over several Bluetooth writes
              slots       report the sizes of the slots
              marks       mark an image for boot
              board       report the name of the board
              images      the image group: all commands about images

            Example: otaflash simulate create kitchen --product demo --version 1.0.0 \\
                       --trust release.pub.pem
            """)

    @Argument(help: "The name of the new device (example: kitchen). Its address is sim:<name>.")
    var name: VirtualDeviceName

    @Option(help: "The product of the device (example: demo); with --protocol smp, the name of the board. Required.")
    var product: String

    @Option(help: "The version that the device runs first (example: 1.0.0). Required.")
    var version: String

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp("The update protocol: ota (GATT OTA profile) or smp (MCUmgr).", valueName: "protocol"))
    var updateProtocol = UpdateProtocol.ota

    @Option(
        help: ArgumentHelp(
            "The hardware revision, 0 to 65535; default: 1. Only with --protocol ota.", valueName: "revision"),
        transform: WholeNumber.in(0...UInt16.max))
    var hardware: UInt16?

    @Option(
        help: ArgumentHelp(
            "The security counter, 0 to 4294967295; default: 0. Only with --protocol ota.", valueName: "n"),
        transform: WholeNumber.in(0...UInt32.max))
    var counter: UInt32?

    @Option(
        help: ArgumentHelp(
            "The number of different trusted keys that must have signed a bundle, 1 to 4; default: 1. Only with --protocol ota.",
            valueName: "n"),
        transform: WholeNumber.in(1...4))
    var signatures: Int?

    @Option(
        help: ArgumentHelp(
            "Start only images of this format: esp-idf, mcuboot or raw; default: any format. Only with --protocol ota.",
            valueName: "format"),
        completion: .list(ImageFormat.allCases.map(\.name)))
    var imageFormat: String?

    @Option(
        help: ArgumentHelp(
            "The trial time, 0 to 3600 seconds. The device rolls back if a new image is not confirmed within this time after its "
                + "boot. 0: the device has no trial; default: 60. Only with --protocol ota.",
            valueName: "seconds"),
        transform: WholeNumber.in(0...3600))
    var trial: Int?

    @Option(
        help: ArgumentHelp(
            "Remove this ability from the device; repeatable; default: remove none.", valueName: "ability"))
    var without: [VirtualDeviceAbility] = []

    @OptionGroup var smp: SMPDeviceOptions

    @Option(
        help: ArgumentHelp(
            "A public key that the device trusts, or a folder with public keys (*.pub.pem); repeatable. Default: the paths in "
                + "$OTAFLASH_TRUST; if $OTAFLASH_TRUST is not set, the folder ~/.config/otaflash/trust.",
            valueName: "path"),
        completion: .file())
    var trust: [String] = []

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name.text)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let product = try Self.read(product, "product", ProductName.rule) { ProductName($0) }
        let version = try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) }
        let format = try Self.read(imageFormat, "image-format", "raw, esp-idf or mcuboot") { text in
            ImageFormat.allCases.first { $0.name == text }
        }
        try checkOptions()
        let name = name.text
        let store = try VirtualDevices().store
        var keys = TrustOptions()
        keys.trust = trust
        let trusted = try keys.store(console)
        switch updateProtocol {
        case .ota:
            guard !trusted.keys.isEmpty else {
                throw KeyError(
                    .noTrustedKey, "no trusted key is an Ed25519 key, and the GATT OTA profile accepts only bundles",
                    hint: "create an Ed25519 key: otaflash keygen NAME; for MCUboot images: --protocol smp")
            }
            var configuration = VirtualDeviceConfiguration(product: product, trustedKeys: trusted.keys)
            configuration.requiredSignatures = signatures ?? configuration.requiredSignatures
            configuration.hardware = hardware ?? configuration.hardware
            configuration.imageFormat = format
            configuration.trialSeconds = trial ?? configuration.trialSeconds
            configuration.offersEncodings = !without.contains(.encodings)
            configuration.offersBase = !without.contains(.base)
            try store.create(name, configuration, version: version, securityCounter: counter ?? 0)
        case .smp:
            var configuration = VirtualSMPConfiguration(trust: trusted)
            configuration.board = product.text
            smp.apply(to: &configuration, without: without)
            try store.create(name, configuration, version: version)
        }
        let made = try store.summary(of: name)
        let rest = made.hardware.map { ", hardware revision \($0)" } ?? ""
        return VirtualDevicesAnswer(
            devices: [.init(made)],
            lines: ["Created sim:\(name): \(made.product) \(made.version), \(made.updateProtocol.title)\(rest)."])
    }

    /// Refuses an option that does not apply to the protocol of this device.
    private func checkOptions() throws(Failure) {
        let own = [
            (hardware != nil, "--hardware"), (counter != nil, "--counter"), (signatures != nil, "--signatures"),
            (imageFormat != nil, "--image-format"), (trial != nil, "--trial"),
        ].first(where: \.0)?.1
        let ability = without.first { $0.updateProtocol != updateProtocol }.map { "--without \($0.rawValue)" }
        let (option, other) = updateProtocol == .ota ? (smp.given ?? ability, "smp") : (own ?? ability, "ota")
        guard let option else { return }
        throw Failure.usage(
            "\(option) requires --protocol \(other), but this device uses \(updateProtocol.rawValue)",
            hint: "remove \(option), or use --protocol \(other)")
    }
}

/// An ability of a virtual device that the option `--without` can remove.
enum VirtualDeviceAbility: String, ExpressibleByArgument, CaseIterable, Sendable {
    /// The device accepts encoded images.
    case encodings
    /// The device can read its running image as the base of an encoded image.
    case base
    /// The device reports the number and the size of its buffers.
    case parameters
    /// The device accepts a packet that is split over several Bluetooth writes.
    case reassembly
    /// The device reports the sizes of its slots.
    case slots
    /// The device can mark an image for the next boot.
    case marks
    /// The device reports the name of its board.
    case board
    /// The device has the commands about images.
    case images

    /// The protocol whose devices have this ability.
    var updateProtocol: UpdateProtocol {
        switch self {
        case .encodings, .base: .ota
        case .parameters, .reassembly, .slots, .marks, .board, .images: .smp
        }
    }
}

/// The options of a virtual device that uses SMP.
struct SMPDeviceOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The number of packets that the device can hold, 1 to 64; default: 4. Only with --protocol smp.",
            valueName: "n"),
        transform: WholeNumber.in(1...64))
    var buffers: Int?

    @Option(
        help: ArgumentHelp(
            "The longest packet that the device accepts, 64 to 65535 bytes with its header; default: 2475. Only with --protocol smp.",
            valueName: "bytes"),
        transform: WholeNumber.in(64...65535))
    var bufferSize: Int?

    @Option(
        help: ArgumentHelp(
            "The longest packet that reaches the device, 32 to 65535 bytes with its header: longer packets are lost, although the device "
                + "reports --buffer-size; default: no limit. Only with --protocol smp.",
            valueName: "bytes"),
        transform: WholeNumber.in(32...65535))
    var packetLimit: Int?

    @Option(
        help: ArgumentHelp(
            "The time from a request to its response, 0 to 60000 ms; default: 0. Only with --protocol smp.",
            valueName: "ms"),
        transform: WholeNumber.in(0...60000))
    var answerTime: Int?

    @Option(
        help: ArgumentHelp(
            "The time from a response until the device frees the buffers of the request and the response, 0 to 60000 ms; default: 0. "
                + "Only with --protocol smp.",
            valueName: "ms"),
        transform: WholeNumber.in(0...60000))
    var releaseTime: Int?

    /// The name of the first SMP option that the user gave, for error messages; nil if the user gave none.
    var given: String? {
        [
            (buffers != nil, "--buffers"), (bufferSize != nil, "--buffer-size"),
            (packetLimit != nil, "--packet-limit"), (answerTime != nil, "--answer-time"),
            (releaseTime != nil, "--release-time"),
        ].first(where: \.0)?.1
    }

    func apply(to configuration: inout VirtualSMPConfiguration, without: [VirtualDeviceAbility]) {
        configuration.bufferCount = buffers ?? configuration.bufferCount
        configuration.bufferSize = bufferSize ?? configuration.bufferSize
        configuration.packetLimit = packetLimit ?? configuration.packetLimit
        configuration.answerDelay = answerTime.map { .milliseconds($0) } ?? configuration.answerDelay
        configuration.releaseDelay = releaseTime.map { .milliseconds($0) } ?? configuration.releaseDelay
        configuration.reportsParameters = !without.contains(.parameters)
        configuration.reassembles = !without.contains(.reassembly)
        configuration.reportsSlots = !without.contains(.slots)
        configuration.marksImages = !without.contains(.marks)
        configuration.reportsBoard = !without.contains(.board)
        configuration.hasImageGroup = !without.contains(.images)
    }
}
