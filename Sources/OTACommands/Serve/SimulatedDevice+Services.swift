import BlueZ
import OTASimulator
import OTAUpdate

extension SimulatedDevice {
    /// The GATT services of the device: see docs/ota-profile.md, docs/smp.md.
    func services(_ protection: LocalCharacteristic.Protection) -> [LocalService] {
        guard channels.contains(VirtualGATT.data) else {
            return [
                LocalService(
                    BluetoothUUID(dataChannel.service),
                    [LocalCharacteristic(dataChannel, [.writeWithoutResponse, .notify], protection)])
            ]
        }
        let ota = LocalService(
            BluetoothUUID(VirtualGATT.service),
            [
                LocalCharacteristic(VirtualGATT.info, [.read]),
                LocalCharacteristic(VirtualGATT.control, [.write, .notify], protection),
                LocalCharacteristic(VirtualGATT.data, [.writeWithoutResponse, .write], protection),
                LocalCharacteristic(VirtualGATT.progress, [.read, .notify]),
                LocalCharacteristic(VirtualGATT.version, [.read]),
            ])
        guard channels.contains(VirtualGATT.battery) else { return [ota] }
        let battery = LocalCharacteristic(VirtualGATT.battery, [.read])
        return [ota, LocalService(BluetoothUUID(VirtualGATT.battery.service), [battery])]
    }
}

extension LocalCharacteristic {
    fileprivate init(_ channel: Channel, _ operations: Set<Operation>, _ protection: Protection = .none) {
        self.init(BluetoothUUID(channel.characteristic), operations, protection: protection)
    }
}

extension LocalAttribute {
    init(_ channel: Channel) {
        self.init(BluetoothUUID(channel.service), BluetoothUUID(channel.characteristic))
    }

    var channel: Channel { Channel(service: service.value, characteristic: characteristic.value) }
}
