import BlueZ
import OTAProfile
import OTASMP
import OTAUpdate

extension UpdateProtocol {
    /// The GATT service that it goes over.
    var service: BluetoothUUID {
        switch self {
        case .ota: BluetoothUUID(ProfileChannel.service)
        case .smp: BluetoothUUID(SMPChannel.value.service)
        }
    }

    static func advertised(by device: BluetoothDevice) -> [UpdateProtocol] {
        allCases.filter { device.serviceUUIDs.contains($0.service) }
    }
}
