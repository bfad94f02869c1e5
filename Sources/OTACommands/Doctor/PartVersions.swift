import DBus
import Glibc
import OTASigning

/// The versions of otaflash and of the software that it uses.
struct PartVersions: Encodable, Sendable {
    let otaflash = Version.number
    let swift = Self.compiler
    let libcrypto = Libcrypto.version
    let libdbus = DBusLibrary.version
    /// Nil if BlueZ is not installed.
    let bluez = BluetoothDaemon.version
    let linux = Self.kernel

    private enum CodingKeys: CodingKey {
        case otaflash, swift, libcrypto, libdbus, bluez, linux
    }

    var text: String {
        "otaflash \(otaflash), built by Swift \(swift); libcrypto \(libcrypto), libdbus \(libdbus), "
            + "BlueZ \(bluez ?? "not installed"), Linux \(linux)"
    }

    private static var compiler: String {
        #if compiler(>=6.4)
            "6.4 or later"
        #elseif compiler(>=6.3)
            "6.3"
        #else
            "6.2"
        #endif
    }

    private static var kernel: String {
        var names = utsname()
        guard uname(&names) == 0 else { return "unknown" }
        return withUnsafeBytes(of: names.release) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
