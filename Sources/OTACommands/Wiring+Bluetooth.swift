import BlueZ
import OTABlueZ
import OTAProfile
import OTASMP
import OTAUpdate

extension Wiring {
    /// Performs a task over Bluetooth LE.
    func perform(
        _ choice: ProtocolChoice, onBluetooth address: BLEAddress, _ radio: RadioOptions
    ) async throws -> DeviceOutcome {
        let lock = BluetoothLock(invocation)
        let links = LinkGuard(console.logger)
        defer { links.stop() }
        let transport = BlueZTransport(
            address, services: [ProfileChannel.service, SMPChannel.value.service], adapter: radio.adapter,
            pairing: radio.pairing(console), logger: console.logger, links: links,
            admits: { device throws(BlueZError) in try await lock.take(device) })
        let (session, chosen) = choosing(choice, seed: UInt64.random(in: 0 ... .max))
        do {
            let report = try await run(session, over: transport)
            let device = await lock.device
            return DeviceOutcome(
                report: report, updateProtocol: chosen.value,
                address: "ble:\(device?.address.description ?? address.description)",
                name: device?.name)
        } catch {
            if let failure = await lock.failure { throw failure }
            throw error
        }
    }
}
