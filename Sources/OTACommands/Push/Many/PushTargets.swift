import ArgumentParser
import OTAClient
import OTAUpdate

/// The options of `push` that select one or several devices.
struct PushTargets: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "\(DeviceOptions.addressHelp) \(DeviceOptions.severalHelp)", valueName: "address"),
        completion: Completions.addresses)
    var device: [String] = []

    @Option(
        help: ArgumentHelp(DeviceOptions.fileHelp, valueName: "file"),
        completion: .file())
    var deviceFile: String?

    @OptionGroup var session: SessionOptions

    @OptionGroup var adapters: AdapterList
    @OptionGroup var pairing: PasskeyOptions

    private static let title = "Options for several devices"

    @OptionGroup(title: title) var selection: DeviceSelection
    @OptionGroup(title: title) var order: PushOrder

    func validate() throws {
        if selection.all {
            guard device.isEmpty, deviceFile == nil else {
                throw ValidationError("--all finds the devices itself; omit --device and --device-file.")
            }
            return
        }
        guard device.isEmpty, deviceFile == nil else { return try checkAdapters() }
        throw ValidationError("Missing expected argument '--device <address>'")
    }

    /// Refuses several adapters for a push to one device, because such a push uses only one adapter.
    private func checkAdapters() throws(ValidationError) {
        guard adapter.count > 1, !areMany else { return }
        throw ValidationError("One device uses one adapter: give --adapter once, or several devices.")
    }

    var adapter: [String] { adapters.adapter }

    /// True for a push to several devices. This includes every push with `--all` or `--device-file`, even to only one device.
    var areMany: Bool { selection.all || deviceFile != nil || device.count > 1 }

    private static let mostDevices = 1000

    /// The options of a push to one device. A push to several devices uses only the shared options in it, such as the time limit.
    var one: DeviceOptions { options(for: device.first ?? "") }

    /// Returns the options of the push to one of the devices.
    func options(for device: String) -> DeviceOptions {
        var options = DeviceOptions()
        options.device = device
        options.session = session
        options.radio = RadioOptions(adapter: adapter.first, pairing)
        return options
    }

    /// The words of the command line that select the devices. Hints repeat them in the command line that they show.
    var words: [String] {
        var words = device.flatMap { ["--device", $0] }
        if let deviceFile { words += ["--device-file", deviceFile] }
        words += selection.words + adapter.flatMap { ["--adapter", $0] }
        if let forced = session.updateProtocol.forced { words += ["--protocol", forced.rawValue] }
        return words + order.words
    }

    /// Parses the addresses of all devices.
    ///
    /// - Throws: `usage` for an invalid or repeated address, or if the protocol of `--protocol` does not work with an address; the errors
    ///   of `FileReader`.
    func addresses() throws -> [DeviceAddress] {
        if selection.all { return [] }
        return try DeviceList(device, file: deviceFile).addresses(atMost: Self.mostDevices, address(of:))
    }

    /// Parses the address of one of several devices. The devices may have different transports. So the Bluetooth options are ignored for a
    /// device with another transport.
    private func address(of text: String) throws -> DeviceAddress {
        var options = options(for: text)
        if try !DeviceAddress(text).isBluetooth { options.radio = .none }
        return try options.address()
    }
}

/// The options for the order of the updates: how many run at the same time, how many run first as a test, and whether a failure stops the
/// others.
struct PushOrder: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The maximum number of devices that receive data at the same time, 1 to 1000. Each Bluetooth adapter, the UDP devices and "
                + "the virtual devices have this maximum separately: with 2, for example, 2 devices over hci0, 2 over hci1 and 2 over UDP. "
                + "A serial port has one device. auto: 4 over each Bluetooth adapter, 32 over UDP, 4 virtual devices. Default: auto.",
            valueName: "number"),
        transform: Self.atOnce)
    var atOnce = AtOnce.auto

    @Option(
        help: ArgumentHelp(
            "Before the update of any other device starts, this number of devices must be updated and confirmed (with --no-confirm: "
                + "on trial; with --upload-only: uploaded). If one of them cannot be updated, for example because its link was lost, "
                + "another device takes its place. Default: 1 if there are 4 or more devices, otherwise 0.",
            valueName: "number"),
        transform: WholeNumber.in(0...1000))
    var first: Int?

    @Flag(
        help:
            """
            Start all updates, even if a device has rolled back, or was not reachable after its restart. Default: after such a \
            failure, complete the running updates and start no others.
            """
    )
    var keepGoing = false

    /// The value of `--at-once`.
    enum AtOnce: Sendable, CustomStringConvertible {
        case auto
        case number(Int)

        var number: Int? { if case .number(let number) = self { number } else { nil } }
        var description: String { number.map { "\($0)" } ?? "auto" }
    }

    private static func atOnce(_ text: String) throws -> AtOnce {
        if text == AtOnce.auto.description { return .auto }
        guard let number = Int(text), (1...1000).contains(number) else {
            throw ValidationError("expected auto, or a whole number from 1 to 1000.")
        }
        return .number(number)
    }

    /// These options as words of the command line. Hints repeat them in the command line that they show.
    fileprivate var words: [String] {
        var words: [String] = []
        if let number = atOnce.number { words += ["--at-once", "\(number)"] }
        if let first { words += ["--first", "\(first)"] }
        if keepGoing { words.append("--keep-going") }
        return words
    }
}

extension RadioOptions {
    /// The empty options, for a device that is not reached over Bluetooth.
    fileprivate static var none: RadioOptions {
        var pairing = PasskeyOptions()
        pairing.passkey = nil
        pairing.requireBond = false
        return RadioOptions(adapter: nil, pairing)
    }
}
