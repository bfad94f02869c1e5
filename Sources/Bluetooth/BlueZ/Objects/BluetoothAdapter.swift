package import DBus

/// A Bluetooth controller of this machine, as bluetoothd reports it.
public struct BluetoothAdapter: Sendable, Equatable {
    package let path: DBusObjectPath
    public let address: BluetoothAddress
    /// The name of this machine that other devices see over this adapter.
    public let alias: String
    public let isPowered: Bool
    public let isDiscovering: Bool

    /// The adapter's name, such as `hci0`.
    public var name: String { path.lastElement }

    init(_ path: DBusObjectPath, _ properties: PropertyReader) throws(MalformedObject) {
        self.path = path
        address = try properties.require("Address", PropertyReader.address)
        alias = try properties.read("Alias", \.string) ?? ""
        isPowered = try properties.read("Powered", \.boolean) ?? false
        isDiscovering = try properties.read("Discovering", \.boolean) ?? false
    }
}

extension BlueZObjectTree {
    /// Returns the reason why the adapter can no longer be used; nil if the adapter is usable. `generation` is the value of
    /// `self.generation` when the caller started to use the adapter. If the two values differ, bluetoothd has stopped since then.
    func loss(of adapter: DBusObjectPath, since generation: Int) -> BlueZError? {
        guard isServiceRunning, self.generation == generation else {
            return BlueZError(.serviceUnavailable, "bluetoothd stopped")
        }
        guard let record = adapters[adapter] else { return BlueZError(.noSuchAdapter, "the adapter was removed") }
        return record.isPowered ? nil : BlueZError(.adapterOff, "\(record.name) was switched off")
    }

    /// Returns the first powered adapter with this name.
    ///
    /// - Parameter name: the name of the adapter; nil for any adapter.
    ///
    /// - Throws: `serviceUnavailable`; `adapterOff` if all matching adapters are off; `noSuchAdapter` if no adapter matches.
    package func usableAdapter(_ name: String?) throws(BlueZError) -> BluetoothAdapter {
        guard isServiceRunning else {
            throw BlueZError(.serviceUnavailable, "bluetoothd is not running")
        }
        let all = adapterList.filter { name == nil || $0.name == name }
        if let usable = all.first(where: \.isPowered) { return usable }
        if let off = all.first { throw BlueZError(.adapterOff, "\(off.name) is switched off") }
        throw BlueZError(.noSuchAdapter, name.map { "there is no adapter \($0)" } ?? "there is no Bluetooth adapter")
    }
}
