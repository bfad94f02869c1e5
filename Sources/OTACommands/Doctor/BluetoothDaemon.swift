import DBus
import Glibc

/// bluetoothd, as it is installed and as it was started. It tells neither over the bus.
package enum BluetoothDaemon {
    static let defaultConfiguration = "/etc/bluetooth/main.conf"
    private static let places = [
        "/usr/libexec/bluetooth/bluetoothd", "/usr/lib/bluetooth/bluetoothd", "/usr/sbin/bluetoothd",
    ]

    /// Where distributions put it; nil: it is not installed.
    static var path: String? { places.first { access($0, X_OK) == 0 } }

    /// `5.66`.
    static var version: String? {
        guard let path, let pipe = popen("\(path) --version 2>/dev/null", "re") else { return nil }
        defer { pclose(pipe) }
        var line = [CChar](repeating: 0, count: 64)
        guard fgets(&line, Int32(line.count), pipe) != nil else { return nil }
        let text = String(decoding: line.prefix { $0 > 32 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return text.isEmpty ? nil : text
    }

    /// The file that the running one was told to read, else the usual one.
    static func configuration(over bus: DBusConnection) async -> String {
        let reply = try? await bus.call(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
            ["org.bluez"])
        guard let process = reply?.first?.uint32, let words = SystemFile.text("/proc/\(process)/cmdline") else {
            return defaultConfiguration
        }
        return configuration(in: words.split(separator: "\0").map(String.init)) ?? defaultConfiguration
    }

    /// - Parameter words: bluetoothd's command line.
    package static func configuration(in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word.hasPrefix("--configfile=") { return String(word.dropFirst("--configfile=".count)) }
            if word == "-f" || word == "--configfile", index + 1 < words.count { return words[index + 1] }
        }
        return nil
    }
}
