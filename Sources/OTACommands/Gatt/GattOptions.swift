import ArgumentParser
import BlueZ
import OTABlueZ

/// Which device.
struct GattOptions: ParsableArguments {
    @Argument(help: "The device: ble:AA:BB:CC:DD:EE:FF, ble:name=NAME, or ble: for the only one that can be updated.")
    var device: String

    @OptionGroup var radio: RadioOptions

    func address() throws -> BLEAddress {
        guard case .bluetooth(let address) = try DeviceAddress(device).transport else {
            throw Failure.usage(
                "\(device) is a virtual device, and not on the air", hint: "put it there: otaflash simulate serve NAME")
        }
        return address
    }
}

/// Which characteristic.
struct CharacteristicOptions: ParsableArguments {
    @Argument(help: "The characteristic's UUID, such as 2a19.")
    var characteristic: String

    @Option(help: ArgumentHelp("The service that it is in, where several have one.", valueName: "uuid"))
    var service: String?

    func validate() throws {
        for text in [characteristic, service].compactMap({ $0 }) where BluetoothUUID(text) == nil {
            throw ValidationError("'\(text)' is not a UUID: give four hex digits, or all of it.")
        }
    }

    /// - Throws: `BlueZError`, and a usage failure where more than one is meant.
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
                "\(found.count) services have a characteristic \(characteristic)",
                hint: "say which by --service: \(places)")
        }
        return first
    }
}
