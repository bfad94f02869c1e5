import ArgumentParser
import BeaconProtocol
import BlueZ
import ExampleSupport

struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Be a beacon until SIGINT or SIGTERM.",
        discussion: "Example: ble-beacon serve --uuid e2c56db5-dffb-48d2-b060-d0f5a71096e0 --major 1 --minor 2")

    @OptionGroup var adapter: AdapterOption
    @OptionGroup var options: SettingsOptions
    @Option(parsing: .unconditional, help: "The signal strength at 1 m with a transmit power of 0 dB, in dBm.")
    var measuredPower: Int8 = -59
    @OptionGroup var name: NameOption

    private var settings: BeaconSettings {
        var settings = BeaconSettings(
            uuid: BeaconService.uuid, major: 0, minor: 0, transmission: Transmission(powerCode: 2, interval: 160))
        options.apply(to: &settings)
        return settings
    }

    func validate() throws {
        do { try settings.transmission.check() } catch { throw ValidationError("--interval: \(error).") }
    }

    func run() async throws {
        let beacon = Beacon(settings: settings, measuredPower: measuredPower)
        try await withClient(interrupted: .success) { client in
            try await client.withPeripheral(over: adapter.adapter, offering: [Beacon.service]) { peripheral in
                // The data of an iBeacon fills the packet. Therefore the service and the name need their own advertisement.
                let service = Advertisement(serviceUUIDs: [BeaconService.uuid], localName: name.name ?? "Beacon")
                try await peripheral.withAdvertisement(service) {
                    try await peripheral.withAdvertisement(beacon.advertisement) { advertising in
                        report("advertising over \(peripheral.adapterName)\n\(beacon.settings)")
                        var beacon = beacon
                        try await beacon.answer(peripheral, advertising)
                    }
                }
                peripheral.disconnectAll()
            }
        }
    }
}

/// A beacon: its settings, and the answers to the requests of managers.
struct Beacon {
    static let service = LocalService(
        BeaconService.uuid,
        [BeaconService.identifier, BeaconService.numbers, BeaconService.transmission].map {
            LocalCharacteristic($0, [.read, .write])
        })

    var settings: BeaconSettings
    /// The signal strength at 1 m with a transmit power of 0 dB, in dBm.
    let measuredPower: Int8

    var advertisement: Advertisement {
        let power = settings.transmission.power ?? 0
        let beacon = IBeacon(
            uuid: settings.uuid, major: settings.major, minor: settings.minor,
            measuredPower: Int8(clamping: Int(measuredPower) + power))
        let interval = Duration.microseconds(Int(settings.transmission.interval) * 625)
        return Advertisement(
            serviceUUIDs: [], manufacturerData: [IBeacon.company: beacon.manufacturerData],
            interval: interval...interval, transmitPower: power)
    }

    /// Answers requests until the task is cancelled. Ends the connection of a central that sends no request for 60 s.
    mutating func answer(_ peripheral: Peripheral, _ advertising: ActiveAdvertisement) async throws {
        var limit = IdleLimit(.seconds(60)) { peripheral.disconnect($0) }
        for try await event in peripheral.events {
            limit.record(event)
            switch event {
            case .connected(let connection): report("\(connection.central) connected")
            case .disconnected(let connection): report("\(connection.central) disconnected")
            case .read(let request): answer(request)
            case .write(let request): await answer(request, advertising)
            case .subscribed: break
            }
        }
    }

    private func answer(_ request: ReadRequest) {
        guard let value = settings.value(of: request.attribute.characteristic), request.offset <= value.count else {
            return request.fail(with: .invalidOffset)
        }
        request.succeed(with: Array(value[request.offset...]))
    }

    /// Answers a write when the new settings are advertised, or refuses it.
    private mutating func answer(_ request: WriteRequest, _ advertising: ActiveAdvertisement) async {
        let central = request.connection.central
        let old = settings
        do {
            settings = try settings(after: request)
            try await advertising.change(to: advertisement)
            request.succeed()
            report("\(central) wrote\n\(settings)")
        } catch let refusal as BeaconRefusal {
            request.fail(with: refusal.attributeError)
            report("refused a write of \(central): \(refusal)")
        } catch {
            settings = old
            request.fail(with: .unlikely)
            report("cannot advertise the settings of \(central): \(sentence(error))")
        }
    }

    private func settings(after request: WriteRequest) throws(BeaconRefusal) -> BeaconSettings {
        guard request.offset == 0 else { throw .invalidOffset }
        var new = settings
        try new.decode(request.value, of: request.attribute.characteristic)
        try new.transmission.check()
        return new
    }
}
