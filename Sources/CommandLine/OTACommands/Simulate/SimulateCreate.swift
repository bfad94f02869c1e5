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
            Example: otaflash simulate create kitchen --product demo --version 1.0.0 \\
                       --trust release.pub.pem

            The device accepts only files that are signed by a key of --trust.

            A new device has all of the following abilities. --without removes one of them.

            \(VirtualDeviceAbility.list)

            A device without encodings accepts neither compressed images nor deltas.
            """)

    @Argument(help: "The name of the new device (example: kitchen). Its address is sim:<name>.")
    var name: VirtualDeviceName

    @Option(help: "The product of the device (example: demo); with --protocol smp, the name of the board. Required.")
    var product: String

    @Option(help: "The version that the device runs first (example: 1.0.0). Required.")
    var version: String

    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp("The update protocol: \(UpdateProtocol.values).", valueName: "protocol"))
    var updateProtocol = Protocols.all[0].updateProtocol

    @OptionGroup var profile: ProfileDeviceOptions

    @Option(
        help: ArgumentHelp(
            "Remove one.", discussion: "Repeatable. Default: remove none.", valueName: "ability"))
    var without: [VirtualDeviceAbility] = []

    @OptionGroup var smp: SMPDeviceOptions

    @Option(
        help: ArgumentHelp(
            "A key that the device trusts, or a folder of *.pub.pem; repeatable. Default: the trust folder.",
            discussion: "The default is the paths in $OTAFLASH_TRUST; if $OTAFLASH_TRUST is not set, the folder "
                + "~/.config/otaflash/trust.", valueName: "path"),
        completion: .file())
    var trust: [String] = []

    @OptionGroup(title: "Output options") var options: OutputOptions

    var invocation: Invocation { Invocation(command: Self.name, device: "sim:\(name.text)") }

    func answer(_ console: Console) throws -> VirtualDevicesAnswer {
        let product = try Self.read(product, "product", ProductName.rule) { ProductName($0) }
        let version = try Self.read(version, "version", SemanticVersion.rule) { SemanticVersion($0) }
        try checkOptions()
        let name = name.text
        let devices = try VirtualDevices()
        var keys = TrustOptions()
        keys.trust = trust
        let wanted = NewVirtualDevice(
            product: product, version: version, trust: try keys.store(console), without: Set(without.map(\.name)))
        if let own = ownOptions.first(where: { $0.updateProtocol == updateProtocol }) {
            try own.create(name, wanted, in: devices.store)
        } else {
            try devices.create(name, wanted, updateProtocol)
        }
        let made = try devices.store.summary(of: name)
        let rest = made.hardware.map { ", hardware revision \($0)" } ?? ""
        return VirtualDevicesAnswer(
            devices: [.init(made)],
            lines: ["Created sim:\(name): \(made.product) \(made.version), \(made.updateProtocol.title)\(rest)."])
    }

    /// The options that only devices of one protocol have.
    private var ownOptions: [any OwnDeviceOptions] { [profile, smp] }

    /// Refuses an option that does not apply to the protocol of this device.
    private func checkOptions() throws(Failure) {
        let others = ownOptions.filter { $0.updateProtocol != updateProtocol }
        let option = others.compactMap { own in own.given.map { ($0, own.updateProtocol) } }.first
        let ability = without.first { $0.updateProtocol != updateProtocol }
        guard let (option, other) = option ?? ability.map({ ("--without \($0.name)", $0.updateProtocol) }) else {
            return
        }
        throw Failure.usage(
            "\(option) requires --protocol \(other.rawValue), but this device uses \(updateProtocol.rawValue)",
            hint: "remove \(option), or use --protocol \(other.rawValue)")
    }
}

/// An ability of a virtual device that the option `--without` can remove.
struct VirtualDeviceAbility: ExpressibleByArgument, Sendable {
    let name: String
    /// The protocol whose devices have this ability.
    let updateProtocol: UpdateProtocol

    private static var kinds: [any VirtualDeviceKind] { Protocols.all.compactMap(\.virtualDevice) }
    static var allValueStrings: [String] { kinds.flatMap { $0.abilities.map(\.name) } }

    init?(argument: String) {
        guard let kind = Self.kinds.first(where: { $0.abilities.contains { $0.name == argument } }) else { return nil }
        (name, updateProtocol) = (argument, kind.updateProtocol)
    }

    /// The list for the help.
    static var list: String {
        kinds.filter { !$0.abilities.isEmpty }.map { kind in
            let rows = kind.abilities.map { ability in
                "  \(ability.name)\(String(repeating: " ", count: max(1, 12 - ability.name.count)))\(ability.description)"
            }
            return (["With --protocol \(kind.updateProtocol.rawValue):", ""] + rows).joined(separator: "\n")
        }.joined(separator: "\n\n")
    }
}
