import ArgumentParser
import BlueZ
import OTAProfile

/// By which a device can be updated, as its advertisement tells.
enum UpdateProtocol: String, CaseIterable, Sendable, ExpressibleByArgument {
    /// The GATT OTA profile (docs/ota-profile.md).
    case ota
    /// MCUmgr's Simple Management Protocol (Zephyr, `subsys/mgmt/mcumgr/transport/src/smp_bt.c`).
    case smp

    /// The GATT service that it goes over.
    var service: BluetoothUUID {
        switch self {
        case .ota: ScannedDevice.service
        case .smp: BluetoothUUID(0x8D53_DC1D_1DB7_4CD3_868B_8A52_7460_AA84)
        }
    }

    static func advertised(by device: BluetoothDevice) -> [UpdateProtocol] {
        allCases.filter { device.serviceUUIDs.contains($0.service) }
    }
}
