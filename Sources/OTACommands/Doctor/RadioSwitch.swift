/// An rfkill switch of Bluetooth, read from sysfs (kernel: `Documentation/ABI/stable/sysfs-class-rfkill`).
package struct RadioSwitch: Equatable {
    package let name: String
    /// Blocked by software.
    let isSoftBlocked: Bool
    /// Blocked by a hardware switch or key of the machine.
    let isHardBlocked: Bool

    /// Reads all Bluetooth switches.
    package static func all(in folder: String = "/sys/class/rfkill") -> [RadioSwitch] {
        SystemFile.names(in: folder).compactMap { entry in
            let path = "\(folder)/\(entry)"
            guard SystemFile.line("\(path)/type") == "bluetooth" else { return nil }
            return RadioSwitch(
                name: SystemFile.line("\(path)/name") ?? entry, isSoftBlocked: SystemFile.line("\(path)/soft") == "1",
                isHardBlocked: SystemFile.line("\(path)/hard") == "1")
        }
    }

    /// Checks that no switch blocks Bluetooth.
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
