import ArgumentParser
import BlueZ
import OTABlueZ
import OTAClient

/// The device of a `gatt` command.
struct GattOptions: ParsableArguments {
    @Argument(help: "The device: ble:AA:BB:CC:DD:EE:FF, ble:name=NAME or ble: (the only updatable one).")
    var device: String

    @OptionGroup var radio: RadioOptions

    func address() throws -> BLEAddress {
        guard case .bluetooth(let address) = try DeviceAddress(device).transport else {
            throw Failure.usage(
                "\(device) is not a Bluetooth address",
                hint:
                    "list the devices in range: otaflash scan; serve a virtual device over Bluetooth: otaflash simulate serve NAME"
            )
        }
        return address
    }
}

/// The characteristic of a `gatt` command.
struct CharacteristicOptions: ParsableArguments {
    @Argument(help: "The characteristic's UUID (example: 2a19).")
    var characteristic: String

    @Option(
        help: ArgumentHelp("The service's UUID, if several services contain the characteristic.", valueName: "uuid"))
    var service: String?

    func validate() throws {
        for text in [characteristic, service].compactMap({ $0 }) where BluetoothUUID(text) == nil {
            throw ValidationError("'\(text)' is not a UUID: expected 4 hex digits or all 32 (example: 2a19).")
        }
    }

    /// Finds the characteristic on the connected device.
    ///
    /// - Throws: `BlueZError`; a usage failure if several services contain the characteristic.
    func find(in connection: DeviceConnection) throws -> GATTCharacteristic {
        let uuid = BluetoothUUID(characteristic)
        let service = self.service.flatMap { BluetoothUUID($0) }
        let services = connection.services.filter { service == nil || $0.uuid == service }
        let found = services.flatMap(\.characteristics).filter { $0.uuid == uuid }
        guard let first = found.first else {
            throw BlueZError(.noSuchObject, "the device has no characteristic \(characteristic)")
        }
        guard found.count == 1 || service != nil else {
            let places = found.map(\.service.description).joined(separator: ", ")
            throw Failure.usage(
                "\(found.count) services contain the characteristic \(characteristic)",
                hint: "add --service with one of: \(places)")
        }
        return first
    }
}
