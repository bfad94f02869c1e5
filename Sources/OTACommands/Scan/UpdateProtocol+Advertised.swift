import BlueZ
import OTAProfile
import OTASMP
import OTAUpdate

extension UpdateProtocol {
    /// The GATT service of the protocol.
    var service: BluetoothUUID {
        switch self {
        case .ota: BluetoothUUID(ProfileChannel.service)
        case .smp: BluetoothUUID(SMPChannel.value.service)
        }
    }

    /// The protocols whose GATT services the device advertises.
    static func advertised(by device: BluetoothDevice) -> [UpdateProtocol] {
        allCases.filter { device.serviceUUIDs.contains($0.service) }
    }
}
