import BlueZ
import DBus
import Logging

/// Checks the system bus, bluetoothd and the permission to use bluetoothd.
struct BluetoothService: Sendable {
    private(set) var checks: [Check] = []
    /// The path of bluetoothd's configuration file; nil if bluetoothd does not run or refuses access.
    private(set) var configuration: String?

    static func examine(_ logger: Logger) async -> BluetoothService {
        var service = BluetoothService()
        let bus: DBusConnection
        do throws(DBusError) { bus = try await .open(.system, logger: logger) } catch {
            service.checks.append(
                .missing(
                    "dbus", "cannot connect to the system bus: \(error.message)",
                    "install and start it: sudo apt-get install dbus && sudo systemctl start dbus"))
            return service
        }
        service.checks.append(.ok("dbus", "connected to the system bus"))
        await service.askDaemon(over: bus)
        await bus.close()
        return service
    }

    private mutating func askDaemon(over bus: DBusConnection) async {
        do throws(DBusError) {
            // A call starts bluetoothd if D-Bus activation is configured.
            _ = try await bus.call(BlueZName.service, .root, BlueZName.objectManager, "GetManagedObjects")
        } catch {
            return checks.append(Self.problem(BlueZError(error, "call bluetoothd")))
        }
        let version = BluetoothDaemon.version.map { ", version \($0)" } ?? ""
        checks.append(.ok("bluetoothd", "running\(version)"))
        checks.append(.ok("permission", "this user can access bluetoothd"))
        configuration = await BluetoothDaemon.configuration(over: bus)
    }

    private static func problem(_ error: BlueZError) -> Check {
        switch error.code {
        case .accessDenied:
            return .missing(
                "permission", "the D-Bus policy does not allow this user to access bluetoothd",
                "join the bluetooth group: sudo usermod -aG bluetooth $USER", "then log out and in again")
        case .serviceUnavailable where BluetoothDaemon.path == nil:
            return .missing("bluetoothd", "BlueZ is not installed", "install it: sudo apt-get install bluez")
        case .serviceUnavailable:
            return .missing(
                "bluetoothd", "installed but not running", "start it: sudo systemctl enable --now bluetooth",
                "if that fails, read its log: journalctl -u bluetooth")
        default:
            return .missing(
                "bluetoothd", "bluetoothd does not answer: \(error.context)",
                "restart it: sudo systemctl restart bluetooth", "read its log: journalctl -u bluetooth")
        }
    }
}
