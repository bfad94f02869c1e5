import FoundationEssentials
import SystemPackage

/// The settings in bluetoothd's `main.conf` that affect the transfer speed.
package struct SpeedSettings: Equatable {
    /// The maximum number of ATT channels to one device; nil if the number is unknown.
    package var channels: Int?
    /// The maximum initial connection interval in units of 1.25 ms; nil if the file does not set the interval. The kernel's default of 30
    /// to 50 ms then applies.
    package var longestInterval: Int?

    /// Parses `main.conf`. A `Channels` line that is commented out contains the default value of the installed BlueZ version. This value is
    /// used if no other line sets `Channels`.
    package init(parsing text: String) {
        var section = ""
        for line in text.split(whereSeparator: \.isNewline).map(Self.trimmed) {
            if line.hasPrefix("["), line.hasSuffix("]") {
                section = String(line.dropFirst().dropLast())
                continue
            }
            let isDefault = line.hasPrefix("#")
            let parts = line.drop { $0 == "#" }.split(separator: "=", maxSplits: 1)
            guard parts.count == 2, let value = Int(Self.trimmed(parts[1])) else { continue }
            switch (section, Self.trimmed(parts[0])) {
            case ("GATT", "Channels"): if !isDefault || channels == nil { channels = value }
            case ("LE", "MaxConnectionInterval"): if !isDefault { longestInterval = value }
            default: break
            }
        }
    }

    private static func trimmed(_ text: some StringProtocol) -> String {
        let head = text.drop { $0 == " " || $0 == "\t" }
        return String(head.reversed().drop { $0 == " " || $0 == "\t" }.reversed())
    }

    /// Returns the checks of the settings in a file. If the file cannot be read, returns the checks of the default settings, or an empty
    /// array if BlueZ is not installed.
    static func checks(of path: String) -> [Check] {
        if let text = SystemFile.text(path) { return SpeedSettings(parsing: text).checks(of: path) }
        if BluetoothDaemon.path == nil { return [] }
        return SpeedSettings(parsing: "").checks(of: path)
    }

    /// Returns the checks of the settings.
    ///
    /// - Parameter path: the path of the settings file, for the advice.
    package func checks(of path: String) -> [Check] {
        let restart = "then: sudo systemctl restart bluetooth"
        var checks: [Check] = []
        if let channels, channels > 1 {
            checks.append(
                .slow(
                    "eatt", "up to \(channels) ATT channels to a paired device: chunks can arrive out of order",
                    "in \(path), under [GATT]: Channels = 1", restart))
        } else {
            checks.append(.ok("eatt", "one ATT channel per device"))
        }
        if let longestInterval, longestInterval <= 12 {
            let milliseconds = Figures.decimal(Double(longestInterval) * 1.25, places: 2)
            checks.append(.ok("interval", "connection interval at the start: at most \(milliseconds) ms"))
        } else {
            let begin = longestInterval.map { "up to \(Figures.decimal(Double($0) * 1.25, places: 2))" } ?? "30 to 50"
            checks.append(
                .slow(
                    "interval",
                    "connection interval at the start: \(begin) ms, until the device requests a shorter one (about 29 kB/s at "
                        + "50 ms, 97 kB/s at 15 ms)",
                    "in \(path), under [LE]: MinConnectionInterval = 12 and MaxConnectionInterval = 12", restart))
        }
        return checks
    }
}

/// An rfkill switch, which can block Bluetooth on this computer. The source is sysfs (kernel:
/// `Documentation/ABI/stable/sysfs-class-rfkill`).
package struct RadioSwitch: Equatable {
    package let name: String
    /// True if software blocks Bluetooth.
    let isSoftBlocked: Bool
    /// True if a hardware switch or key of the computer blocks Bluetooth.
    let isHardBlocked: Bool

    /// Reads all rfkill switches of Bluetooth.
    package static func all(in folder: String = "/sys/class/rfkill") -> [RadioSwitch] {
        SystemFile.names(in: folder).compactMap { entry in
            let path = "\(folder)/\(entry)"
            guard SystemFile.line("\(path)/type") == "bluetooth" else { return nil }
            return RadioSwitch(
                name: SystemFile.line("\(path)/name") ?? entry, isSoftBlocked: SystemFile.line("\(path)/soft") == "1",
                isHardBlocked: SystemFile.line("\(path)/hard") == "1")
        }
    }

    /// Checks that no rfkill switch blocks Bluetooth.
    package static func check(_ switches: [RadioSwitch]) -> Check {
        if let blocked = switches.first(where: \.isHardBlocked) {
            return .missing(
                "rfkill", "\(blocked.name) is blocked by a hardware switch or key of this machine",
                "switch Bluetooth on there, then check the state: rfkill list bluetooth")
        }
        if let blocked = switches.first(where: \.isSoftBlocked) {
            return .missing("rfkill", "\(blocked.name) is blocked by software", "unblock it: rfkill unblock bluetooth")
        }
        return .ok("rfkill", "Bluetooth is not blocked")
    }
}

/// Reads small system files, which may not exist.
enum SystemFile {
    /// Returns the first 64 KiB of a file; nil if the file cannot be read.
    static func text(_ path: String) -> String? {
        guard let file = try? FileDescriptor.open(FilePath(path), .readOnly, options: .closeOnExec) else { return nil }
        defer { try? file.close() }
        var bytes = [UInt8](repeating: 0, count: 65536)
        guard let count = try? bytes.withUnsafeMutableBytes({ try file.read(into: $0) }) else { return nil }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Returns the first line of a file; nil if the file cannot be read.
    static func line(_ path: String) -> String? {
        text(path).map { String($0.prefix { !$0.isNewline }) }
    }

    /// Returns the sorted names in a folder; empty if the folder cannot be read.
    static func names(in folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).sorted()
    }
}
