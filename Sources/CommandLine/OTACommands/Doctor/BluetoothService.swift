import BlueZ
import DBus
import Glibc
import Logging

/// Checks the system bus, bluetoothd and the permission to use bluetoothd.
struct BluetoothService: Sendable {
    private(set) var checks: [Check] = []
    /// True if bluetoothd accepts D-Bus calls from this user.
    private(set) var isUsable = false
    /// The path of bluetoothd's configuration file.
    private(set) var configuration = BluetoothDaemon.defaultConfiguration

    static func examine(_ logger: Logger) async -> BluetoothService {
        var service = BluetoothService()
        let bus: DBusConnection
        do throws(DBusError) { bus = try await .open(.system, logger: logger) } catch {
            service.checks.append(
                .missing(
                    "dbus", "cannot connect to the system bus: \(error.message)",
                    "install and start it: sudo apt-get install dbus && sudo systemctl start dbus"))
            service.checks.append(daemonWithoutBus())
            service.checks.append(.unknown("permission", "not checked: it requires the system bus"))
            return service
        }
        service.checks.append(.ok("dbus", "connected to the system bus"))
        await service.askDaemon(over: bus)
        await bus.close()
        return service
    }

    /// Checks bluetoothd without D-Bus calls, for a computer on which the system bus cannot be reached.
    private static func daemonWithoutBus() -> Check {
        guard BluetoothDaemon.path != nil else { return notInstalled }
        return BluetoothDaemon.isRunning
            ? .unknown("bluetoothd", "running, but it can be reached only over the system bus") : notRunning
    }

    private static let notInstalled = Check.missing(
        "bluetoothd", "BlueZ is not installed", "install it: sudo apt-get install bluez")
    private static let notRunning = Check.missing(
        "bluetoothd", "installed but not running", "start it: sudo systemctl enable --now bluetooth",
        "if that fails, read its log: journalctl -u bluetooth")

    private mutating func askDaemon(over bus: DBusConnection) async {
        do throws(DBusError) {
            // This D-Bus call starts bluetoothd if D-Bus activation is configured.
            _ = try await bus.call(BlueZName.service, .root, BlueZName.objectManager, "GetManagedObjects")
        } catch {
            let problem = BlueZError(error, "call bluetoothd")
            if problem.code == .accessDenied {
                checks.append(BluetoothDaemon.isRunning ? .ok("bluetoothd", Self.running) : Self.notRunning)
                return checks.append(Self.problem(problem))
            }
            checks.append(Self.problem(problem))
            return checks.append(.unknown("permission", "not checked: it requires bluetoothd"))
        }
        isUsable = true
        checks.append(.ok("bluetoothd", Self.running))
        checks.append(.ok("permission", "this user can access bluetoothd"))
        configuration = await BluetoothDaemon.configuration(over: bus)
    }

    private static var running: String { "running\(BluetoothDaemon.version.map { ", version \($0)" } ?? "")" }

    private static func problem(_ error: BlueZError) -> Check {
        switch error.code {
        case .accessDenied:
            return .missing(
                "permission", "the D-Bus policy does not allow this user to access bluetoothd",
                "join the bluetooth group: sudo usermod -aG bluetooth $USER", "then log out and in again")
        case .serviceUnavailable: return BluetoothDaemon.path == nil ? notInstalled : notRunning
        default:
            return .missing(
                "bluetoothd", "bluetoothd does not answer: \(error.context)",
                "restart it: sudo systemctl restart bluetooth", "read its log: journalctl -u bluetooth")
        }
    }
}

/// Reads the version and the configuration path of bluetoothd. bluetoothd does not report these values over D-Bus.
package enum BluetoothDaemon {
    static let defaultConfiguration = "/etc/bluetooth/main.conf"
    private static let places = [
        "/usr/libexec/bluetooth/bluetoothd", "/usr/lib/bluetooth/bluetoothd", "/usr/sbin/bluetoothd",
    ]

    /// The path of the executable file; nil if the file is not in one of the usual folders of Linux distributions.
    static var path: String? { places.first { access($0, X_OK) == 0 } }

    /// True if a process with the name `bluetoothd` runs.
    static var isRunning: Bool {
        SystemFile.names(in: "/proc").contains { SystemFile.line("/proc/\($0)/comm") == "bluetoothd" }
    }

    /// The version of the installed bluetoothd, such as `5.66`; nil if the version is unknown.
    static var version: String? {
        guard let path, let pipe = popen("\(path) --version 2>/dev/null", "re") else { return nil }
        defer { pclose(pipe) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), pipe) != nil else { return nil }
        let text = String(decoding: line.prefix { $0 > 32 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }

    /// Returns the path of the configuration file from the command line of the running bluetoothd. If bluetoothd does not run, or if its
    /// command line does not contain the path, returns the default path.
    static func configuration(over bus: DBusConnection) async -> String {
        let reply = try? await bus.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
            ["org.bluez"])
        guard let process = reply?.first?.uint32, let words = SystemFile.text("/proc/\(process)/cmdline") else {
            return defaultConfiguration
        }
        return configuration(in: words.split(separator: "\0").map(String.init)) ?? defaultConfiguration
    }

    /// Finds the path of the configuration file in bluetoothd's command line; nil if the command line does not contain the path.
    ///
    /// - Parameter words: the words of bluetoothd's command line.
    package static func configuration(in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word.hasPrefix("--configfile=") { return String(word.dropFirst("--configfile=".count)) }
            if word == "-f" || word == "--configfile", index + 1 < words.count { return words[index + 1] }
        }
        return nil
    }
}

/// Checks that a Bluetooth adapter exists and is switched on.
package enum AdapterCheck {
    /// Checks the adapters that BlueZ reports.
    ///
    /// - Parameter name: the adapter's name, such as `hci1`; nil for any adapter.
    static func examine(_ name: String?, _ logger: Logger) async -> Check {
        do throws(BlueZError) {
            let client = try await BlueZClient.open(logger: logger)
            let adapters = try await client.adapters
            await client.close()
            return check(adapters, name)
        } catch {
            return .missing("adapter", error.context, "restart bluetoothd: sudo systemctl restart bluetooth")
        }
    }

    /// The names of the adapters that the kernel lists.
    package static func kernelAdapters(in folder: String = "/sys/class/bluetooth") -> [String] {
        // The kernel also lists each link of an adapter, for example hci0:64. This function omits the links.
        SystemFile.names(in: folder).filter { $0.hasPrefix("hci") && !$0.contains(":") }
    }

    /// Checks the adapters that the kernel lists. This check is for a computer on which bluetoothd cannot be reached.
    ///
    /// - Parameter name: the adapter's name, such as `hci1`; nil for any adapter.
    package static func examine(_ name: String?, ofKernel adapters: [String]) -> Check {
        guard !adapters.isEmpty else { return noAdapter }
        guard let name else {
            return .unknown(
                "adapter", "found \(adapters.joined(separator: ", ")); only bluetoothd reports if it is switched on")
        }
        return adapters.contains(name)
            ? .unknown("adapter", "found \(name); only bluetoothd reports if it is switched on")
            : missing(name, adapters)
    }

    private static let noAdapter = Check.missing(
        "adapter", "this machine has no Bluetooth adapter",
        "connect one, then check the kernel log: sudo dmesg | grep -i bluetooth")

    private static func missing(_ name: String, _ others: [String]) -> Check {
        .missing(
            "adapter", "no adapter \(name) on this machine",
            "use --adapter with one of: \(others.joined(separator: ", "))")
    }

    private static func check(_ adapters: [BluetoothAdapter], _ name: String?) -> Check {
        let meant = adapters.filter { name == nil || $0.name == name }
        if let usable = meant.first(where: \.isPowered) {
            return .ok("adapter", "\(usable.name), \(usable.address), is switched on")
        }
        if let off = meant.first {
            let choose = adapters.count > 1 ? "select \(off.address)\\n" : ""
            let type = choose.isEmpty ? "bluetoothctl power on" : "printf '\(choose)power on\\n' | bluetoothctl"
            return .missing("adapter", "\(off.name) is switched off", "switch it on: \(type)")
        }
        if let name, !adapters.isEmpty { return missing(name, adapters.map(\.name)) }
        return noAdapter
    }
}
