import BlueZ

/// The devices that a scan has found so far. Only the board updates the display.
actor ScanBoard {
    private let display: ScanDisplay
    private var devices: [BluetoothAddress: ScannedDevice] = [:]

    init(_ display: ScanDisplay) { self.display = display }

    /// The devices, strongest signal first.
    var list: [ScannedDevice] {
        devices.values.sorted { ($1.rssi ?? .min, $0.address) < ($0.rssi ?? .min, $1.address) }
    }

    /// Records an event. Returns the device when it first becomes known as updatable: the scan then reads it.
    func note(_ event: ScanEvent) -> BluetoothDevice? {
        switch event {
        case .appeared(let device), .changed(let device):
            let isNew = devices[device.address] == nil
            var entry = devices[device.address] ?? ScannedDevice(device)
            let wasKnown = !isNew && !entry.protocols.isEmpty
            entry.note(device)
            devices[device.address] = entry
            display.show(list, appeared: isNew ? entry : nil)
            return wasKnown || entry.protocols.isEmpty ? nil : device
        case .disappeared(let device):
            devices[device.address] = nil
            display.show(list)
            return nil
        }
    }

    func update(_ address: BluetoothAddress, _ identity: DeviceIdentity) {
        devices[address]?.product = identity.product
        devices[address]?.version = identity.version
        display.show(list, isNews: true)
    }

    func update(_ address: BluetoothAddress, unread reason: String) {
        devices[address]?.unread = reason
        display.show(list)
    }

    func finish() { display.finish() }
}
