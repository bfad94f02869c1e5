import BlueZ
import OTAUpdate

extension DeviceConnection {
    /// Throws `no-such-object`.
    nonisolated func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        try characteristic(BluetoothUUID(channel.characteristic), of: BluetoothUUID(channel.service))
    }
}
