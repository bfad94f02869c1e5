import BlueZ
import Logging

/// Checks that a Bluetooth adapter exists and is switched on.
enum AdapterCheck {
    /// Checks the adapters of BlueZ.
    ///
    /// - Parameter name: the adapter's name, such as `hci1`; nil: any adapter.
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
            return .missing("adapter", "no adapter \(name) on this machine", "use --adapter with one of: \(others)")
        }
        return .missing(
            "adapter", "this machine has no Bluetooth adapter",
            "connect one, then check the kernel log: "
                + "sudo dmesg | grep -i bluetooth")
    }
}
