import BlueZ
import OTAProfile
package import OTAProtocol
import OTASMP
package import OTASimulator
public import OTAUpdate

extension UpdateProtocol: CaseIterable {
    /// The update protocols that otaflash supports.
    public static var allCases: [UpdateProtocol] { Protocols.all.map(\.updateProtocol) }
}

/// The table of the update protocols.
package enum Protocols {
    /// A protocol, and the virtual devices that have it; nil: no virtual device has it.
    package struct Entry: Sendable {
        package let definition: any ProtocolDefinition
        package let virtualDevice: (any VirtualDeviceKind)?

        package init(_ definition: any ProtocolDefinition, _ virtualDevice: (any VirtualDeviceKind)? = nil) {
            self.definition = definition
            self.virtualDevice = virtualDevice
        }

        package var updateProtocol: UpdateProtocol { definition.updateProtocol }
    }

    /// The table. If a device offers several protocols, the first one that can perform the task is used. A test adds a protocol of its own.
    @TaskLocal package static var all = [
        Entry(ProfileDefinition(), VirtualProfileKind()),
        Entry(SMPDefinition(), VirtualSMPKind()),
    ]

    package static func named(_ name: String) -> UpdateProtocol? {
        all.map(\.updateProtocol).first { $0.rawValue == name }
    }

    package static func definition(of updateProtocol: UpdateProtocol) -> (any ProtocolDefinition)? {
        all.first { $0.updateProtocol == updateProtocol }?.definition
    }

    static func definition(of channel: Channel) -> (any ProtocolDefinition)? {
        all.first { $0.definition.channelNames[channel] != nil }?.definition
    }

    /// The UUIDs of the services of all protocols.
    package static var services: Set<UInt128> { all.reduce(into: []) { $0.formUnion($1.definition.services) } }

    /// The protocols whose services the device advertises.
    static func advertised(by device: BluetoothDevice) -> [Entry] {
        all.filter { entry in entry.definition.services.contains { device.serviceUUIDs.contains(BluetoothUUID($0)) } }
    }

    /// The protocols over a transport that has only one channel.
    static var withOneChannel: [Entry] { all.filter { $0.definition.onlyChannel != nil } }

    /// Update protocols that otaflash recognizes by their GATT service, but does not support. The sources are `DFUUuidHelper.swift` in
    /// IOS-DFU-Library, and `ble_ota` in esp-iot-solution.
    static let unsupported: [UInt128: String] = [
        0x0000_FE59_0000_1000_8000_0080_5F9B_34FB: "Nordic Secure DFU",
        0x0000_1530_1212_EFDE_1523_785F_EABC_D123: "Nordic Legacy DFU",
        0x0000_8018_0000_1000_8000_0080_5F9B_34FB: "Espressif BLE OTA",
    ]
}
