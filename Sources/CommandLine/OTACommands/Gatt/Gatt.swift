import ArgumentParser
import BlueZ
import OTAClient
import OTALinks
import OTAUpdate

/// The command group `gatt`, whose subcommands use the GATT services of a device.
struct Gatt: ParsableCommand, CommandGroupWithHint {
    static let hint = "list the services of a device: otaflash gatt services ble:AA:BB:CC:DD:EE:FF"
    static let configuration = CommandConfiguration(
        commandName: "gatt", abstract: "Read and write the characteristics of any Bluetooth device.",
        discussion: """
            Example: otaflash gatt read ble:AA:BB:CC:DD:EE:FF 2a19

            A characteristic is named by its UUID of 4 or 32 hex digits, such as 2a19. Values are hex digits, too.
            """,
        subcommands: [GattServices.self, GattRead.self, GattWrite.self, GattNotify.self])
}

/// A subcommand of `gatt`, for any Bluetooth device.
protocol GattCommand: Command {
    var target: GattOptions { get }
    /// The command-line arguments that follow the device address. Hints repeat them in the command line that they show.
    var words: [String] { get }
}

extension GattCommand {
    var words: [String] { [] }
    var device: String? { target.device }

    var invocation: Invocation {
        let words = [Self.name] + ([target.device] + words).map(Shell.quoted)
        var invocation = Invocation(command: words.joined(separator: " "))
        invocation.bluetoothDevice = Shell.quoted(target.device)
        invocation.adapter = target.radio.adapter
        return invocation
    }

    /// Connects to the device and runs `body` with the connection. A signal such as SIGINT cancels `body`.
    func withDevice(
        _ console: Console, _ body: @escaping @Sendable (DeviceConnection) async throws -> Answer
    ) async throws -> Answer {
        let address = try target.address()
        let lock = BluetoothLock(target.device)
        let request = ConnectionRequest(
            address.target(services: Set(Protocols.services.map { BluetoothUUID($0) })), adapter: target.radio.adapter,
            admits: { device throws(BlueZError) in try await lock.take(device) })
        let requirement = target.radio.pairing.requirement
        let given = target.radio.pairing.responder(console)
        let pairing = requirement == .none ? given : given.requiringAuthentication
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let client = try await BlueZClient.open(logger: console.logger, links: links)
        let answer: Answer
        do {
            answer = try await console.untilSignalled {
                try await client.withConnection(request, pairing: pairing) { connection in
                    let bonds = BondFiles()
                    try await connection.secure(requirement, bonds)
                    do {
                        let answer = try await body(connection)
                        _ = await connection.security(bonds)
                        return answer
                    } catch {
                        _ = await connection.security(bonds)
                        throw error
                    }
                }
            }
        } catch {
            await client.close()
            if let failure = await lock.failure { throw failure }
            throw error
        }
        await client.close()
        return answer
    }
}

extension DeviceConnection {
    /// Runs `body`. If the device requires pairing, this function pairs the device and runs `body` again.
    nonisolated func pairingIfNeeded<Value: Sendable>(
        _ body: @Sendable () async throws -> Value
    ) async throws -> Value {
        do { return try await body() } catch let error as BlueZError where error.code == .notPaired {
            try await pair()
            return try await body()
        }
    }
}

/// The device argument and the Bluetooth options of a `gatt` command.
struct GattOptions: ParsableArguments {
    @Argument(
        help: ArgumentHelp(
            "The address (example: ble:AA:BB:CC:DD:EE:FF) or name (example: ble:name=Lamp) of the device."))
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

/// The characteristic that a `gatt` command reads, writes or subscribes to.
struct CharacteristicOptions: ParsableArguments {
    @Argument(help: "The UUID of the characteristic, 4 or 32 hex digits (example: 2a19).")
    var characteristic: String

    @Option(
        help: ArgumentHelp(
            "The UUID of the service (example: 180f). Required if several services have the characteristic.",
            valueName: "uuid"))
    var service: String?

    func validate() throws {
        for text in [characteristic, service].compactMap({ $0 }) where BluetoothUUID(text) == nil {
            throw ValidationError("'\(text)' is not a UUID: expected 4 hex digits or all 32 (example: 2a19).")
        }
    }

    /// Finds the characteristic on the connected device.
    ///
    /// - Throws: `BlueZError`, or a usage failure if several services contain the characteristic.
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
