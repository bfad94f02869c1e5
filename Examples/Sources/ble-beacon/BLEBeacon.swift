import ArgumentParser
import BeaconProtocol
import BlueZ
import ExampleSupport

@main
struct BLEBeacon: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-beacon", abstract: "Be an iBeacon, or find and configure iBeacons.",
        subcommands: [Serve.self, Scan.self, Show.self, Change.self])
}

/// The settings of a beacon as options. Each option may be absent.
struct SettingsOptions: ParsableArguments {
    @Option(help: "The UUID of the beacon.")
    var uuid: BluetoothUUID?
    @Option(help: "The major number, 0 to 65535.")
    var major: UInt16?
    @Option(help: "The minor number, 0 to 65535.")
    var minor: UInt16?
    @Option(parsing: .unconditional, help: "The transmit power in dB: 0, -6 or -23.")
    var power: Int?
    @Option(help: "The advertising interval in milliseconds, 100 to 10240, in steps of 0.625.")
    var interval: Double?

    func validate() throws {
        guard power.map({ Transmission.powerCode(of: $0) != nil }) ?? true else {
            throw ValidationError("--power: \(BeaconRefusal.unknownPower).")
        }
        guard interval.map({ Transmission.interval(milliseconds: $0) != nil }) ?? true else {
            throw ValidationError("--interval: \(BeaconRefusal.intervalOutOfRange).")
        }
    }

    /// Whether an option was given.
    var isPresent: Bool { uuid != nil || major != nil || minor != nil || power != nil || interval != nil }

    /// Replaces each setting whose option was given.
    func apply(to settings: inout BeaconSettings) {
        if let uuid { settings.uuid = uuid }
        if let major { settings.major = major }
        if let minor { settings.minor = minor }
        if let code = power.flatMap(Transmission.powerCode) { settings.transmission.powerCode = code }
        if let units = interval.flatMap(Transmission.interval) { settings.transmission.interval = units }
    }
}

extension BluetoothUUID: @retroactive ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

extension BeaconSettings: CustomStringConvertible {
    public var description: String {
        fields.map { $0.name + String(repeating: " ", count: 10 - $0.name.count) + $0.value }.joined(separator: "\n")
    }
}
