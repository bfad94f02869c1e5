import ArgumentParser
import OTAClient
import OTAFirmware
import OTASigning
import OTASimulator
import OTAUpdate

/// The options of `simulate create` that only devices of one protocol have.
protocol OwnDeviceOptions {
    var updateProtocol: UpdateProtocol { get }
    /// The name of the first of these options that the user gave, for error messages; nil if the user gave none.
    var given: String? { get }

    func create(_ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore) throws
}

/// The options of a virtual device that uses the GATT OTA profile.
struct ProfileDeviceOptions: ParsableArguments, OwnDeviceOptions {
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
            "The number of keys that must have signed a bundle, 1 to 8; default: 1. Only with --protocol ota.",
            valueName: "n"),
        transform: WholeNumber.in(1...Envelope.maximumSignatures))
    var signatures: Int?

    @Option(
        help: ArgumentHelp(
            "Require this algorithm; repeatable. Only with ota.",
            discussion:
                "Example: ml-dsa-65. Each required algorithm needs --signatures signatures. Default: one algorithm is enough.",
            valueName: "algorithm"),
        completion: .list(SignatureAlgorithm.allCases.map(\.name)))
    var requireAlgorithm: [String] = []

    @Option(
        help: ArgumentHelp(
            "The largest step of the counter; only with ota.",
            discussion: "Default: no limit. The device refuses a larger step by its policy (refused-by-policy).",
            valueName: "n"),
        transform: WholeNumber.in(1...UInt32.max))
    var largestCounterStep: UInt32?

    @Option(
        help: ArgumentHelp(
            "The longest envelope; only with --protocol ota.",
            discussion:
                "158 to 65124 bytes. Default: 1332, which is enough for four Ed25519 signatures; 65124 if a trusted key is an "
                + "ML-DSA key.",
            valueName: "bytes"),
        transform: WholeNumber.in(158...Envelope.maximumLength))
    var largestEnvelope: Int?

    @Option(
        help: ArgumentHelp(
            "Start only images of this format: esp-idf, mcuboot or raw. Only with --protocol ota.",
            discussion: "Default: any format.", valueName: "format"),
        completion: .list(ImageFormat.bootable.map(\.name)))
    var imageFormat: String?

    @Option(
        help: ArgumentHelp(
            "The trial time, 0 (no trial) to 3600 s; default: 60. Only with --protocol ota.",
            discussion: "The device rolls back if a new image is not confirmed within this time after its boot.",
            valueName: "seconds"),
        transform: WholeNumber.in(0...3600))
    var trial: Int?

    var given: String? {
        [
            (hardware != nil, "--hardware"), (counter != nil, "--counter"), (signatures != nil, "--signatures"),
            (!requireAlgorithm.isEmpty, "--require-algorithm"), (largestCounterStep != nil, "--largest-counter-step"),
            (largestEnvelope != nil, "--largest-envelope"),
            (imageFormat != nil, "--image-format"), (trial != nil, "--trial"),
        ].first(where: \.0)?.1
    }

    var updateProtocol: UpdateProtocol { VirtualProfileKind().updateProtocol }

    func create(_ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore) throws {
        let format = try SimulateCreate.read(imageFormat, "image-format", "raw, esp-idf or mcuboot") { text in
            ImageFormat.bootable.first { $0.name == text }
        }
        guard !wanted.trust.keys.isEmpty else {
            throw KeyError(
                .noTrustedKey,
                "no trusted key is an Ed25519 or ML-DSA key, and the GATT OTA profile accepts only bundles",
                hint: "create an Ed25519 key: otaflash keygen NAME; for MCUboot images: --protocol smp")
        }
        var configuration = VirtualDeviceConfiguration(wanted)
        configuration.requiredSignatures = signatures ?? configuration.requiredSignatures
        for name in requireAlgorithm {
            let algorithm = try SimulateCreate.read(
                name, "require-algorithm", SignatureAlgorithm.allCases.map(\.name).joined(separator: ", ")
            ) { text in SignatureAlgorithm.allCases.first { $0.name == text } }
            configuration.requiredAlgorithms.insert(algorithm)
        }
        configuration.largestCounterStep = largestCounterStep ?? 0
        configuration.largestEnvelope = largestEnvelope ?? configuration.largestEnvelope
        configuration.hardware = hardware ?? configuration.hardware
        configuration.imageFormat = format
        configuration.trialSeconds = trial ?? configuration.trialSeconds
        try store.create(name, configuration, version: wanted.version, securityCounter: counter ?? 0)
    }
}

/// The options of a virtual device that uses SMP.
struct SMPDeviceOptions: ParsableArguments, OwnDeviceOptions {
    @Option(
        help: ArgumentHelp(
            "The number of packets that the device can hold, 1 to 64; default: 4. Only with --protocol smp.",
            valueName: "n"),
        transform: WholeNumber.in(1...64))
    var buffers: Int?

    @Option(
        help: ArgumentHelp(
            "The longest packet that the device accepts, 64 to 65535 bytes; default: 2475. Only with --protocol smp.",
            discussion: "The length includes the header of the packet.", valueName: "bytes"),
        transform: WholeNumber.in(64...65535))
    var bufferSize: Int?

    @Option(
        help: ArgumentHelp(
            "Ignore packets longer than this, 32 to 65535 bytes; default: no limit. Only with --protocol smp.",
            discussion:
                "The length includes the header of the packet. Longer packets are lost, although the device reports "
                + "--buffer-size.",
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
            "How long buffers are in use after a response, 0 to 60000 ms; default: 0. Only with --protocol smp.",
            discussion: "After this time, the device frees the buffers of the request and the response.",
            valueName: "ms"),
        transform: WholeNumber.in(0...60000))
    var releaseTime: Int?

    var given: String? {
        [
            (buffers != nil, "--buffers"), (bufferSize != nil, "--buffer-size"),
            (packetLimit != nil, "--packet-limit"), (answerTime != nil, "--answer-time"),
            (releaseTime != nil, "--release-time"),
        ].first(where: \.0)?.1
    }

    var updateProtocol: UpdateProtocol { VirtualSMPKind().updateProtocol }

    func create(_ name: String, _ wanted: NewVirtualDevice, in store: VirtualDeviceStore) throws {
        var configuration = VirtualSMPConfiguration(wanted)
        configuration.bufferCount = buffers ?? configuration.bufferCount
        configuration.bufferSize = bufferSize ?? configuration.bufferSize
        configuration.packetLimit = packetLimit ?? configuration.packetLimit
        configuration.answerDelay = answerTime.map { .milliseconds($0) } ?? configuration.answerDelay
        configuration.releaseDelay = releaseTime.map { .milliseconds($0) } ?? configuration.releaseDelay
        try store.create(name, configuration, version: wanted.version)
    }
}
