import BlueZ
import OTAClient
import OTAFirmware
import OTASigning
import OTAUpdate
import SystemPackage

/// The command and the arguments of the user. `line(_:withFile:adding:)` builds the command lines in hints.
package struct Invocation: Sendable {
    /// The command's name, such as `push`.
    package var command: String
    /// The path of the bundle, image or key; nil if the command uses no file.
    package var file: String?
    /// True if the file contains MCUboot images instead of a bundle.
    var hasImages = false
    /// The value of `--device`; nil if the command has no device or several devices.
    package var device: String?
    /// The values of `--trust`.
    package var trust: [String]
    /// The device address of a command such as `gatt`, which takes the address as an argument instead of an option. The address is quoted
    /// for a shell.
    var bluetoothDevice: String?
    /// The value of `--adapter`.
    var adapter: String?
    /// The value of `--protocol`.
    var updateProtocol: String?
    /// The other options that change the effect of the command, such as `--no-downgrade`. Each element is one word of the command line.
    package var options: [String] = []
    /// The IDs of the trusted keys; nil: unknown.
    var trustedKeys: [KeyID]?
    /// The options of `simulate create` for a virtual device that accepts the file; nil if these options are unknown.
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
        options = target.radio.pairing.words
        updateProtocol = target.session.updateProtocol.forced?.rawValue
    }

    /// The name of the file in messages, or `other` if the command uses no file.
    func title(or other: String) -> String { file.map(StandardFile.title) ?? other }

    var isBluetooth: Bool { device.map { $0.hasPrefix("ble:") } ?? true }

    /// The path of the serial port; nil if the device is not at a serial port.
    var serialPort: String? {
        guard let device, device.hasPrefix("serial:") else { return nil }
        return String(device.dropFirst("serial:".count).prefix { $0 != "?" })
    }

    /// The Bluetooth address of the device, or the word ADDRESS if the user did not give the address.
    var bluetoothAddress: String {
        let given = (device ?? bluetoothDevice ?? "").split(separator: "ble:", maxSplits: 1).last ?? ""
        return BluetoothAddress(given)?.description ?? "ADDRESS"
    }

    /// The name of the virtual device; nil if the device is not virtual.
    var virtualDevice: String? {
        guard let device, device.hasPrefix("sim:") else { return nil }
        let name = device.dropFirst("sim:".count).prefix { $0 != "?" }
        return name.isEmpty ? VirtualDevices.demoName : String(name)
    }

    /// The commands that replace the virtual device with a device that accepts the file; nil if the device is not virtual.
    var virtualDeviceAgain: String? {
        guard let virtualDevice else { return nil }
        let name = Shell.quoted(virtualDevice)
        let options = acceptingDevice?.map(Shell.quoted) ?? ["--product PRODUCT --version VERSION"]
        return (["otaflash simulate remove \(name); otaflash simulate create", name] + options).joined(separator: " ")
    }

    /// The invocation to repeat after a failure. It omits the parameter `gone-at` of a virtual device, so that the device is in range
    /// again.
    var again: Invocation {
        guard let device, device.hasPrefix("sim:") else { return self }
        let parts = device.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count > 1 else { return self }
        let items = parts[1].split(separator: "&").filter { !$0.hasPrefix("gone-at=") }
        var copy = self
        copy.device = items.isEmpty ? String(parts[0]) : "\(parts[0])?\(items.joined(separator: "&"))"
        return copy
    }

    /// Returns the invocation without one option.
    func without(_ flag: String) -> Invocation {
        var copy = self
        copy.options.removeAll { $0 == flag }
        return copy
    }

    /// Returns the command line to type again.
    ///
    /// - Parameters:
    ///   - other: the name of another command; nil for the command of this invocation. If `other` is not nil, the line does not contain
    ///     `trust` and `options`.
    ///   - extra: an option to append.
    func line(_ other: String? = nil, withFile: Bool = true, adding extra: String = "") -> String {
        var words = ["otaflash", other ?? command]
        if withFile, let file {
            // Without ./, a name that begins with a hyphen would be an option.
            let isOption = file.hasPrefix("-") && file != StandardFile.name
            words.append(Shell.quoted(isOption ? "./" + file : file))
        }
        if let device { words += ["--device", Shell.quoted(device)] }
        if let adapter { words += ["--adapter", Shell.quoted(adapter)] }
        if let updateProtocol, device != nil { words += ["--protocol", updateProtocol] }
        if other == nil { for path in trust { words += ["--trust", Shell.quoted(path)] } }
        if other == nil { words += without(extra).options.map(Shell.quoted) }
        if !extra.isEmpty { words.append(extra) }
        // The command has already read standard input to its end. So the user must redirect the file again.
        if withFile, file == StandardFile.name { words.append("< FILE") }
        return words.joined(separator: " ")
    }
}

/// Formats text for a shell.
enum Shell {
    /// Quotes a text so that a shell reads the text as one word.
    static func quoted(_ text: String) -> String { text.shellQuoted }

    /// Returns the shell command that sets an environment variable to a list of paths, separated by `:`. A relative path becomes an
    /// absolute path in the current directory. `~` becomes the home directory.
    static func export(_ variable: String, _ paths: [FilePath]) -> String {
        let list = paths.map { path in
            let text = path.string
            let isInHome = text == "~" || text.hasPrefix("~/")
            let rest = (isInHome ? text.dropFirst() : text[...]).map { "\"$`\\".contains($0) ? "\\\($0)" : "\($0)" }
                .joined()
            return path.isAbsolute ? rest : isInHome ? "$HOME\(rest)" : "$PWD/\(rest)"
        }
        let tilde = paths.contains { $0.string.hasPrefix("~") } ? "; the shell does not expand ~ inside quotes" : ""
        return "export \(variable)=\"\(list.joined(separator: ":"))\"\(tilde)"
    }
}
