import BlueZ
import Logging

/// Whether there is an adapter that is switched on.
enum AdapterCheck {
    /// - Parameter name: such as `hci1`; nil: any.
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
        if let name, !adapters.isEmpty {
            let others = adapters.map(\.name).joined(separator: ", ")
            return .missing("adapter", "there is no adapter \(name)", "name one that is there: \(others)")
        }
        return .missing(
            "adapter", "this machine has no Bluetooth adapter",
            "plug one in, and see what the kernel says of it: "
                + "sudo dmesg | grep -i bluetooth")
    }
}
