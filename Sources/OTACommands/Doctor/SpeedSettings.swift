/// The settings in bluetoothd's `main.conf` that affect the speed.
package struct SpeedSettings: Equatable {
    /// The maximum number of ATT channels to one device; nil: unknown.
    package var channels: Int?
    /// The longest initial connection interval in units of 1.25 ms; nil: the kernel's default, 30 to 50 ms.
    package var longestInterval: Int?

    /// Parses the file. A `Channels` line that is commented out shows the default of that BlueZ version.
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

    /// The checks of the settings.
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
