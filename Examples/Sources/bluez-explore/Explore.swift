import BlueZ

/// What is around, and what a device has: `bluez-explore`, or `bluez-explore AA:BB:CC:DD:EE:FF`.
@main
struct Explore {
    static func main() async throws {
        let client = try await BlueZClient.open()
        if let text = CommandLine.arguments.dropFirst().first {
            guard let address = BluetoothAddress(text) else { return print("\(shown(text)) is not an address") }
            try await show(address, client)
        } else {
            try await look(client)
        }
        await client.close()
    }

    /// The devices that are heard within 5 s, the strongest first.
    private static func look(_ client: BlueZClient) async throws {
        for device in try await client.scan(for: .seconds(5)) {
            print(device.address, device.rssi.map { "\($0) dBm" } ?? "–", shown(device.name ?? "–"))
        }
    }

    /// Its services and characteristics, with the values that it lets everybody read.
    private static func show(_ address: BluetoothAddress, _ client: BlueZClient) async throws {
        try await client.withConnection(ConnectionRequest(.address(address))) { connection in
            print(shown(connection.device.name ?? "–"), "MTU \(connection.mtu)")
            for service in connection.services {
                print(service.uuid)
                for characteristic in service.characteristics {
                    print(" ", characteristic.uuid, await value(of: characteristic, connection))
                }
            }
        }
    }

    /// Text from a device, which may hold anything: a control character, a line feed or an invisible character is escaped, so that the
    /// text cannot control the terminal.
    private static func shown(_ text: String) -> String {
        text.unicodeScalars.map { scalar in
            let isUnsafe =
                [.control, .format, .lineSeparator, .paragraphSeparator].contains(scalar.properties.generalCategory)
                || scalar.properties.isDefaultIgnorableCodePoint
            return isUnsafe ? scalar.escaped(asASCII: true) : String(scalar)
        }.joined()
    }

    private static func value(of characteristic: GATTCharacteristic, _ connection: DeviceConnection) async -> String {
        guard characteristic.operations.contains(.read) else {
            return characteristic.operations.map(\.rawValue).sorted().joined(separator: ", ")
        }
        do throws(BlueZError) {
            return "\"\(shown(String(decoding: try await connection.read(characteristic), as: UTF8.self)))\""
        } catch {
            return shown(error.description)
        }
    }
}
