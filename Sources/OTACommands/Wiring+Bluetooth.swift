import BlueZ
import OTABlueZ
import OTAEngine
import OTAProfile
import OTAUpdate

extension Wiring {
    /// Carries out a task over Bluetooth.
    func perform(_ task: DeviceTask, onBluetooth address: BLEAddress, _ radio: RadioOptions) async throws
        -> DeviceOutcome
    {
        let lock = BluetoothLock(situation)
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let transport = BlueZTransport(
            address, service: ProfileChannel.service, adapter: radio.adapter,
            pairing: radio.pairing(console), logger: console.logger, links: links,
            admits: { device throws(BlueZError) in try await lock.take(device) })
        let session = ProfileSession(Self.profileTask(task), seed: UInt64.random(in: 0 ... .max))
        do {
            let report = try await interruptibly { stops in
                let reporter = ProgressReporter(console)
                defer { reporter.finish() }
                let runner = UpdateRunner(clock: ContinuousClock()) { reporter.report($0, at: $1) }
                return try await runner.run(session, over: transport, interrupts: stops)
            }
            let device = await lock.device
            return DeviceOutcome(
                report: report, address: "ble:\(device?.address.description ?? address.description)",
                name: device?.name)
        } catch {
            if let failure = await lock.failure { throw failure }
            throw error
        }
    }
}
