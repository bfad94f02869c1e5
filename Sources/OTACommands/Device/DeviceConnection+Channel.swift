import BlueZ
import OTAUpdate

extension DeviceConnection {
    /// Returns the characteristic of a channel.
    ///
    /// - Throws: `no-such-object` if the device does not have it.
    nonisolated func characteristic(_ channel: Channel) throws(BlueZError) -> GATTCharacteristic {
        try characteristic(BluetoothUUID(channel.characteristic), of: BluetoothUUID(channel.service))
    }
}
