/// What the user named, for hints that can be typed as they stand.
package struct Invocation: Sendable {
    /// The command's name, such as `push`.
    package var command: String
    /// The bundle, image or key that the command is about.
    package var file: String?
    /// The file holds images, and no bundle.
    var hasImages = false
    package var device: String?
    /// What was said of whom to trust.
    package var trust: [String]
    /// The device, where it is part of the command itself.
    var bluetoothDevice: String?
    /// The Bluetooth adapter that was named.
    var adapter: String?
    /// The protocol that was named.
    var updateProtocol: String?
    /// The other options that were given and change what the command does, such as `--no-downgrade`; each a word.
    package var options: [String] = []
    /// The options of `simulate create` for a virtual device that accepts the bundle; nil: there is no bundle.
    var acceptingDevice: [String]?

    package init(command: String, file: String? = nil, device: String? = nil, trust: [String] = []) {
        self.command = command
        self.file = file
        self.device = device
        self.trust = trust
    }

    init(command: String, file: String? = nil, _ target: DeviceOptions, trust: [String] = []) {
        self.init(command: command, file: file, device: target.device, trust: trust)
        adapter = target.radio.adapter
        updateProtocol = target.updateProtocol.forced?.rawValue
    }

    var isBluetooth: Bool { device.map { $0.hasPrefix("ble:") } ?? true }

    /// The virtual device that is meant, by its name.
    var virtualDevice: String? {
        guard let device, device.hasPrefix("sim:") else { return nil }
        let name = device.dropFirst("sim:".count).prefix { $0 != "?" }
        return name.isEmpty ? VirtualDevices.demoName : String(name)
    }

    /// The commands that replace the virtual device by one that accepts the bundle; nil if the device is not a virtual one.
    var virtualDeviceAgain: String? {
        guard let virtualDevice else { return nil }
        let name = Shell.quoted(virtualDevice)
        let options = acceptingDevice?.map(Shell.quoted) ?? ["--product PRODUCT --version VERSION"]
        return (["otaflash simulate remove \(name); otaflash simulate create", name] + options).joined(separator: " ")
    }

    /// The same, to be typed after a failure: a virtual device that was to go out of reach is in reach again.
    var again: Invocation {
        guard let device, device.hasPrefix("sim:") else { return self }
        let parts = device.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count > 1 else { return self }
        let items = parts[1].split(separator: "&").filter { !$0.hasPrefix("gone-at=") }
        var copy = self
        copy.device = items.isEmpty ? String(parts[0]) : "\(parts[0])?\(items.joined(separator: "&"))"
        return copy
    }

    /// The same without a flag.
    func without(_ flag: String) -> Invocation {
        var copy = self
        copy.options.removeAll { $0 == flag }
        return copy
    }

    /// This command once more, with something added or another verb.
    func line(_ verb: String? = nil, withFile: Bool = true, adding extra: String = "") -> String {
        var words = ["otaflash", verb ?? command]
        if withFile, let file { words.append(Shell.quoted(file)) }
        if let device { words += ["--device", Shell.quoted(device)] }
        if let adapter { words += ["--adapter", Shell.quoted(adapter)] }
        if let updateProtocol, device != nil { words += ["--protocol", updateProtocol] }
        if verb == nil { for path in trust { words += ["--trust", Shell.quoted(path)] } }
        if verb == nil { words += without(extra).options.map(Shell.quoted) }
        if !extra.isEmpty { words.append(extra) }
        return words.joined(separator: " ")
    }
}
