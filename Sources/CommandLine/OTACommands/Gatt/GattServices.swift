import ArgumentParser
import BlueZ

/// The command `gatt services`, which lists the services and characteristics of a device.
struct GattServices: GattCommand {
    static let name = "gatt services"
    static let configuration = CommandConfiguration(
        commandName: "services", abstract: "List the services and characteristics of a device.",
        discussion: "Example: otaflash gatt services ble:AA:BB:CC:DD:EE:FF")

    @OptionGroup var target: GattOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> GattServicesAnswer {
        try await withDevice(console) { GattServicesAnswer($0) }
    }
}

/// The result of the command `gatt services`.
struct GattServicesAnswer: CommandAnswer {
    struct Service: Encodable, Sendable {
        let uuid: String
        let characteristics: [Characteristic]
    }
    struct Characteristic: Encodable, Sendable {
        let uuid: String
        let operations: [String]
    }
    let address: String
    let name: String?
    /// The ATT MTU in bytes. The maximum length of a notification or of a write without response is 3 bytes less.
    let mtu: Int
    let services: [Service]

    private enum CodingKeys: CodingKey {
        case address, name, mtu, services
    }

    init(_ connection: DeviceConnection) {
        address = "ble:\(connection.device.address)"
        name = connection.device.name
        mtu = connection.mtu
        services = connection.services.map { service in
            Service(
                uuid: service.uuid.description,
                characteristics: service.characteristics.map { characteristic in
                    Characteristic(
                        uuid: characteristic.uuid.description,
                        operations: GATTCharacteristic.Operation.allCases.filter(characteristic.operations.contains)
                            .map(\.rawValue))
                })
        }
    }

    var lines: [TerminalLine] {
        let title = name.map { "\($0) (\(address))" } ?? address
        let lines = services.flatMap { service in
            ["service \(service.uuid)"]
                + service.characteristics.map { "  \($0.uuid)  \($0.operations.joined(separator: ", "))" }
        }
        return (["\(title), MTU \(mtu)"] + lines).map { TerminalLine($0) }
    }
}
