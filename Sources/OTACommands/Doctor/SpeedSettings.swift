/// What bluetoothd's settings cost in speed (`main.conf`).
package struct SpeedSettings: Equatable {
    /// Of the ATT, to one device; nil: unknown.
    package var channels: Int?
    /// In units of 1.25 ms; nil: the kernel's, 30 to 50 ms.
    package var longestInterval: Int?

    /// A key that is commented out shows the default of the version that it came with.
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

    /// - Parameter path: of the settings.
    package func checks(of path: String) -> [Check] {
        let restart = "then: sudo systemctl restart bluetooth"
        var checks: [Check] = []
        if let channels, channels > 1 {
            checks.append(
                .slow(
                    "eatt", "up to \(channels) ATT channels to a paired device, over which chunks overtake each other",
                    "in \(path), under [GATT]: Channels = 1", restart))
        } else {
            checks.append(.ok("eatt", "one ATT channel to a device"))
        }
        if let longestInterval, longestInterval <= 12 {
            let milliseconds = Figures.decimal(Double(longestInterval) * 1.25, places: 2)
            checks.append(.ok("interval", "connections begin with at most \(milliseconds) ms"))
        } else {
            let begin = longestInterval.map { "up to \(Figures.decimal(Double($0) * 1.25, places: 2))" } ?? "30 to 50"
            checks.append(
                .slow(
                    "interval",
                    "connections begin with \(begin) ms, and go on so unless the device asks for less: about 29 kB/s at "
                        + "50 ms, 97 kB/s at 15 ms",
                    "in \(path), under [LE]: MinConnectionInterval = 12 and MaxConnectionInterval = 12", restart))
        }
        return checks
    }
}
