import ArgumentParser
import BeaconProtocol
import BlueZ
import ExampleSupport

struct Scan: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "List the iBeacons in range and the devices with the configuration service.",
        discussion: "Example: ble-beacon scan --uuid e2c56db5-dffb-48d2-b060-d0f5a71096e0 --major 1")

    @OptionGroup var adapter: AdapterOption
    @Option(name: .customLong("for"), help: "The duration of the scan in seconds, 1 to 3600.")
    var seconds = 5
    @Option(help: "List only iBeacons with this UUID.")
    var uuid: BluetoothUUID?
    @Option(help: "List only iBeacons with this major number.")
    var major: UInt16?
    @Option(help: "List only iBeacons with this minor number.")
    var minor: UInt16?
    @Flag(help: "List only devices with the configuration service.")
    var configurable = false

    func validate() throws {
        guard (1...3600).contains(seconds) else { throw ValidationError("--for: the value must be 1 to 3600.") }
    }

    func run() async throws {
        try await withClient { client in
            for device in try await client.scan(for: .seconds(seconds), over: adapter.adapter) {
                let beacon = device.manufacturerData[IBeacon.company].flatMap(IBeacon.init)
                if matches(device, beacon) { report(line(device, beacon)) }
            }
        }
    }

    private func matches(_ device: BluetoothDevice, _ beacon: IBeacon?) -> Bool {
        let isConfigurable = device.serviceUUIDs.contains(BeaconService.uuid)
        guard isConfigurable || beacon != nil && !configurable else { return false }
        return (uuid == nil || uuid == beacon?.uuid) && (major == nil || major == beacon?.major)
            && (minor == nil || minor == beacon?.minor)
    }

    private func line(_ device: BluetoothDevice, _ beacon: IBeacon?) -> String {
        var line = "\(device.address)"
        if let beacon { line += " uuid \(beacon.uuid) major \(beacon.major) minor \(beacon.minor)" }
        if let rssi = device.rssi {
            line += " rssi \(rssi) dBm"
            if let beacon { line += " distance \((beacon.distance(rssi: rssi) * 100).rounded() / 100) m" }
        }
        return device.serviceUUIDs.contains(BeaconService.uuid) ? line + " configurable" : line
    }
}

/// Selects the beacon to connect to.
struct TargetOptions: ParsableArguments {
    @OptionGroup var adapter: AdapterOption
    @Option(help: "The address of the beacon. Default: the only device in range with the configuration service.")
    var device: BluetoothAddress?

    func withBeacon(_ body: @escaping @Sendable (BeaconManager) async throws -> Void) async throws {
        let target = device.map { DeviceTarget.address($0) } ?? .only(service: BeaconService.uuid)
        let request = ConnectionRequest(target, adapter: adapter.adapter, services: [BeaconService.uuid])
        try await withClient { client in
            try await client.withConnection(request) { try await body(BeaconManager(connection: $0)) }
        }
    }
}

struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show the settings of a beacon.", discussion: "Example: ble-beacon show --device AA:BB:CC:DD:EE:FF")

    @OptionGroup var target: TargetOptions

    func run() async throws {
        try await target.withBeacon { report("\(try await $0.read())") }
    }
}

struct Change: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Change settings of a beacon, read them back and show them.",
        discussion: "Example: ble-beacon set --major 7 --power -6 --interval 250")

    @OptionGroup var target: TargetOptions
    @OptionGroup var options: SettingsOptions

    func validate() throws {
        guard options.isPresent else {
            throw ValidationError("No setting to change; example: ble-beacon set --major 7")
        }
    }

    func run() async throws {
        try await target.withBeacon { beacon in
            let old = try await beacon.read()
            var new = old
            options.apply(to: &new)
            let stored = try await beacon.write(new, over: old)
            report("\(stored)")
            guard stored == new else {
                throw Failure(
                    "The beacon did not store all written settings: \(stored.differences(from: new)). "
                        + "Restart the beacon, and run the command again.")
            }
        }
    }
}

/// A beacon that this program is connected to.
struct BeaconManager: Sendable {
    private static let parts = [
        (BeaconService.identifier, "UUID"), (BeaconService.numbers, "major and minor number"),
        (BeaconService.transmission, "transmit settings"),
    ]

    let connection: DeviceConnection

    func read() async throws -> BeaconSettings {
        var settings = BeaconSettings(
            uuid: BluetoothUUID(0), major: 0, minor: 0, transmission: Transmission(powerCode: 0, interval: 0))
        for (part, name) in Self.parts {
            let value = try await connection.read(connection.characteristic(part, of: BeaconService.uuid))
            do { try settings.decode(value, of: part) } catch {
                throw Failure("The beacon's \(name): \(error).")
            }
        }
        return settings
    }

    /// Writes the parts of the settings that differ from `old`, and reads all settings back. The failures name the earlier changes.
    func write(_ new: BeaconSettings, over old: BeaconSettings) async throws -> BeaconSettings {
        var written: [String] = []
        for (part, name) in Self.parts {
            guard let value = new.value(of: part), value != old.value(of: part) else { continue }
            do throws(BlueZError) {
                try await connection.write(value, to: connection.characteristic(part, of: BeaconService.uuid))
            } catch {
                if let refusal = BeaconRefusal(error) {
                    throw Failure("The beacon refused the \(name): \(refusal)." + earlier(written))
                }
                throw Failure("The \(name): \(Failure(error)).\(earlier(written)) Run the command again.")
            }
            written.append(name)
        }
        do { return try await read() } catch let error as BlueZError {
            throw Failure("The settings were not read back: \(Failure(error)).\(earlier(written)) Run ble-beacon show.")
        }
    }

    private func earlier(_ written: [String]) -> String {
        written.isEmpty ? "" : " Already changed: \(written.joined(separator: ", "))."
    }
}
