import BlueZ
import DBus
import Logging

/// What is there between this program and an adapter: the bus, bluetoothd, the right to speak to it, and the adapters.
struct BluetoothService: Sendable {
    private(set) var checks: [Check] = []
    /// Where bluetoothd reads its settings; nil: it does not run.
    private(set) var configuration: String?

    static func examine(_ logger: Logger) async -> BluetoothService {
        var service = BluetoothService()
        let bus: DBusConnection
        do throws(DBusError) { bus = try await .open(.system, logger: logger) } catch {
            service.checks.append(
                .missing(
                    "dbus", "the system bus cannot be reached: \(error.message)",
                    "install and start it: sudo apt-get install dbus && sudo systemctl start dbus"))
            return service
        }
        service.checks.append(.ok("dbus", "the system bus can be reached"))
        await service.askDaemon(over: bus)
        await bus.close()
        return service
    }

    private mutating func askDaemon(over bus: DBusConnection) async {
        do throws(DBusError) {
            // Only a call makes the bus start it where it is set up to.
            _ = try await bus.call(BlueZName.service, .root, BlueZName.objectManager, "GetManagedObjects")
        } catch {
            return checks.append(Self.problem(BlueZError(error, "speak to bluetoothd")))
        }
        let version = BluetoothDaemon.version.map { ", version \($0)" } ?? ""
        checks.append(.ok("bluetoothd", "it runs\(version)"))
        checks.append(.ok("permission", "this user may speak to it"))
        configuration = await BluetoothDaemon.configuration(over: bus)
    }

    private static func problem(_ error: BlueZError) -> Check {
        switch error.code {
        case .accessDenied:
            return .missing(
                "permission", "the bus does not let this user speak to bluetoothd",
                "join the group: sudo usermod -aG bluetooth $USER", "then log out and in again")
        case .serviceUnavailable where BluetoothDaemon.path == nil:
            return .missing("bluetoothd", "BlueZ is not installed", "install it: sudo apt-get install bluez")
        case .serviceUnavailable:
            return .missing(
                "bluetoothd", "it is installed and does not run", "start it: sudo systemctl enable --now bluetooth",
                "where that does not help, see why: journalctl -u bluetooth")
        default:
            return .missing(
                "bluetoothd", "it does not answer: \(error.context)",
                "restart it: sudo systemctl restart bluetooth", "see what it says: journalctl -u bluetooth")
        }
    }
}
