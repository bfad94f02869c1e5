/// A switch that keeps Bluetooth off, as the kernel tells it (`Documentation/ABI/stable/sysfs-class-rfkill`).
package struct RadioSwitch: Equatable {
    package let name: String
    /// By software.
    let isSoftBlocked: Bool
    /// By a key or a slide of the machine.
    let isHardBlocked: Bool

    package static func all(in folder: String = "/sys/class/rfkill") -> [RadioSwitch] {
        SystemFile.names(in: folder).compactMap { entry in
            let path = "\(folder)/\(entry)"
            guard SystemFile.line("\(path)/type") == "bluetooth" else { return nil }
            return RadioSwitch(
                name: SystemFile.line("\(path)/name") ?? entry, isSoftBlocked: SystemFile.line("\(path)/soft") == "1",
                isHardBlocked: SystemFile.line("\(path)/hard") == "1")
        }
    }

    package static func check(_ switches: [RadioSwitch]) -> Check {
        if let blocked = switches.first(where: \.isHardBlocked) {
            return .missing(
                "rfkill", "\(blocked.name) is switched off by a key or a slide of this machine",
                "switch Bluetooth on there; see the state: rfkill list bluetooth")
        }
        if let blocked = switches.first(where: \.isSoftBlocked) {
            return .missing("rfkill", "\(blocked.name) is blocked", "unblock it: rfkill unblock bluetooth")
        }
        return .ok("rfkill", "Bluetooth is not blocked")
    }
}
