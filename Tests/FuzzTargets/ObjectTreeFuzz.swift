import BlueZ
import DBus

/// What bluetoothd's ObjectManager answers, and the signals behind it, each a message behind its length of two bytes.
enum ObjectTreeFuzz {
    static func run(_ bytes: [UInt8]) -> String? {
        var input = FuzzInput(bytes)
        var tree = ObjectTree()
        while !input.isEmpty {
            let count = Int(input.next()) << 8 | Int(input.next())
            guard let change = try? WireMessage.objectChange(of: input.bytes(upTo: count)) else { continue }
            _ = tree.apply(change)
            for (path, device) in tree.devices where path != device.path { return "a device at another's path" }
            for adapter in tree.adapterList {
                for device in tree.devices(of: adapter.path) {
                    _ = (tree.table(of: device.path), tree.mtu(of: device.path))
                }
            }
        }
        return nil
    }
}
