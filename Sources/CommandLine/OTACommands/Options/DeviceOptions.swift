public import ArgumentParser
import OTAClient
import OTAProtocol
public import OTAUpdate

extension UpdateProtocol: ExpressibleByArgument {
    public static var allValueStrings: [String] { allCases.map(\.rawValue) }
    /// The values with their meaning, for the help of an option: `ota (GATT OTA profile) or smp (MCUmgr)`.
    static var values: String {
        Protocols.all.map { "\($0.updateProtocol.rawValue) (\($0.definition.summary))" }.joined(separator: " or ")
    }

    /// The names of all protocols, for messages: `GATT OTA profile or SMP`.
    static var titles: String { allCases.map(\.title).joined(separator: " or ") }

    public init?(argument: String) {
        guard let known = Protocols.named(argument) else { return nil }
        self = known
    }
}

/// The value of `--protocol`. The value `auto` selects a protocol that the device supports. For `push`, the file must support this
/// protocol, too.
struct ProtocolOption: ExpressibleByArgument, Sendable {
    static let auto = ProtocolOption(forced: nil)
    static var allValueStrings: [String] { [auto.defaultValueDescription] + UpdateProtocol.allValueStrings }

    /// The required protocol; nil for `auto`.
    let forced: UpdateProtocol?

    private init(forced: UpdateProtocol?) { self.forced = forced }

    init?(argument: String) {
        forced = UpdateProtocol(argument: argument)
        if forced == nil, argument != Self.auto.defaultValueDescription { return nil }
    }

    var defaultValueDescription: String { forced?.rawValue ?? "auto" }
}

/// The options of a session, which do not depend on the transport: the protocol and the time limit.
struct SessionOptions: ParsableArguments {
    @Option(
        name: .customLong("protocol"),
        help: ArgumentHelp(
            "\(UpdateProtocol.values).", discussion: "auto asks the device."),
        completion: .list(ProtocolOption.allValueStrings))
    var updateProtocol = ProtocolOption.auto

    @Option(help: TimeLimit.help("Stop with exit 75 after this time", "no limit"), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?
}

/// The options that select a device, its protocol and the time limit.
package struct DeviceOptions: ParsableArguments {
    package init() {}

    static let addressHelp =
        "ble:AA:BB:CC:DD:EE:FF, udp:HOST, serial:/dev/ttyACM0, ble:name=NAME or sim:NAME."
    static let addressManual =
        "udp:HOST:PORT is another port than 1337. sim:NAME is a virtual device. 'ble:' alone selects the only device in range "
        + "that can be updated. 'sim:' alone selects the virtual device 'demo'."
    /// The end of the manual of a `--device` option for several devices.
    package static let severalManual =
        "Repeat the option for several devices. Required, unless another option selects the devices."
    package static let fileHelp = "A file with one device address on each line."
    package static let fileManual = "Empty lines and lines that begin with # are ignored."

    @Option(
        help: ArgumentHelp(
            "\(addressHelp) Required.", discussion: addressManual, valueName: "address"),
        completion: Completions.addresses)
    var device: String

    @OptionGroup var session: SessionOptions
    @OptionGroup var radio: RadioOptions

    /// The time limit of the command; nil if the command has no limit.
    var limit: Duration? { session.timeout?.duration }

    /// Parses the address of the device.
    ///
    /// - Throws: a usage failure if an option does not apply to the transport of the address.
    func address() throws -> DeviceAddress {
        let address = try DeviceAddress(device)
        if !address.isBluetooth, let option = radio.given {
            let what = address.isSimulated ? "a virtual device" : "not a Bluetooth address"
            throw Failure.usage("\(option) is for Bluetooth, but \(device) is \(what)", hint: "remove \(option)")
        }
        if let forced = session.updateProtocol.forced, !address.protocols.contains(forced) {
            let others = address.protocols.map(\.title).sorted().joined(separator: " and ")
            throw Failure.usage(
                "--protocol \(forced.rawValue) does not work with \(device): UDP and serial devices use only \(others)",
                hint: "remove --protocol")
        }
        return address
    }
}
