import DBus
import Glibc

/// Reads the version and the configuration path of bluetoothd, which D-Bus does not provide.
package enum BluetoothDaemon {
    static let defaultConfiguration = "/etc/bluetooth/main.conf"
    private static let places = [
        "/usr/libexec/bluetooth/bluetoothd", "/usr/lib/bluetooth/bluetoothd", "/usr/sbin/bluetoothd",
    ]

    /// The path of bluetoothd; nil if it is in none of the usual folders of distributions.
    static var path: String? { places.first { access($0, X_OK) == 0 } }

    /// The version of the installed bluetoothd, such as `5.66`; nil if unknown.
    static var version: String? {
        guard let path, let pipe = popen("\(path) --version 2>/dev/null", "re") else { return nil }
        defer { pclose(pipe) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), pipe) != nil else { return nil }
        let text = String(decoding: line.prefix { $0 > 32 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }

    /// The configuration file on the command line of the running bluetoothd, else the default file.
    static func configuration(over bus: DBusConnection) async -> String {
        let reply = try? await bus.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
            ["org.bluez"])
        guard let process = reply?.first?.uint32, let words = SystemFile.text("/proc/\(process)/cmdline") else {
            return defaultConfiguration
        }
        return configuration(in: words.split(separator: "\0").map(String.init)) ?? defaultConfiguration
    }

    /// Finds the configuration file in a command line; nil if the command line names none.
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
