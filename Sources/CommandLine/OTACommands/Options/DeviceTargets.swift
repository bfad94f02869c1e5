import ArgumentParser
import OTAClient
import OTAUpdate

/// The options of a command for one or several devices: addresses, protocol, time limit and Bluetooth options.
struct DeviceTargets: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "\(DeviceOptions.addressHelp) Repeatable.",
            discussion: "\(DeviceOptions.addressManual) \(DeviceOptions.severalManual)", valueName: "address"),
        completion: Completions.addresses)
    var device: [String] = []

    @Option(
        help: ArgumentHelp(
            DeviceOptions.fileHelp, discussion: DeviceOptions.fileManual, valueName: "file"),
        completion: .file())
    var deviceFile: String?

    @OptionGroup var session: SessionOptions

    @OptionGroup var adapters: AdapterList
    @OptionGroup var pairing: PasskeyOptions

    private static let mostDevices = 1000

    /// True if the options name several devices, or a file with devices.
    var areMany: Bool { deviceFile != nil || device.count > 1 }

    var adapter: [String] { adapters.adapter }

    /// Checks that the command line selects a device, and one adapter for one device.
    ///
    /// - Parameter finder: the option that finds the devices in place of `--device`; nil: no such option was given.
    func check(finder: String?) throws(ValidationError) {
        if let finder {
            guard device.isEmpty, deviceFile == nil else {
                throw ValidationError("\(finder) finds the devices itself; omit --device and --device-file.")
            }
            return
        }
        guard !device.isEmpty || deviceFile != nil else {
            throw ValidationError("Missing expected argument '--device <address>'")
        }
        guard adapter.count < 2 || areMany else {
            throw ValidationError("One device uses one adapter: give --adapter once, or several devices.")
        }
    }

    /// The options of a command for one device. A command for several devices uses only the shared options in it, such as the time limit.
    var one: DeviceOptions { options(for: device.first ?? "") }

    /// Returns the options of the command for one of the devices.
    func options(for device: String) -> DeviceOptions {
        var options = DeviceOptions()
        options.device = device
        options.session = session
        options.radio = RadioOptions(adapter: adapter.first, pairing)
        return options
    }

    /// Returns the options of the command for one of several devices.
    func options(for device: ManySessions.Device) -> DeviceOptions {
        var options = options(for: device.address.text)
        options.radio = RadioOptions(adapter: device.address.isBluetooth ? device.adapter : nil, pairing)
        return options
    }

    /// The words of the command line that name the devices.
    var deviceWords: [String] {
        device.flatMap { ["--device", $0] } + (deviceFile.map { ["--device-file", $0] } ?? [])
    }

    /// The words of the command line with the adapters and the protocol.
    var sharedWords: [String] {
        adapter.flatMap { ["--adapter", $0] }
            + (session.updateProtocol.forced.map { ["--protocol", $0.rawValue] } ?? [])
    }

    /// Parses the addresses of all devices.
    ///
    /// - Throws: `usage` for an invalid or repeated address, or if the protocol of `--protocol` does not work with an address; the errors
    ///   of `FileReader`.
    func addresses() throws -> [DeviceAddress] { try addresses(DeviceList(device, file: deviceFile)) }

    func addresses(_ list: DeviceList) throws -> [DeviceAddress] {
        try list.addresses(atMost: Self.mostDevices, address(of:))
    }

    /// Parses the address of one of several devices. The devices may have different transports. So the Bluetooth options are ignored for a
    /// device with another transport.
    private func address(of text: String) throws -> DeviceAddress {
        var options = options(for: text)
        if try !DeviceAddress(text).isBluetooth { options.radio = .none }
        return try options.address()
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
