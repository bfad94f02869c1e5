import BlueZ
import OTAEngine
import OTALinks
import OTAProtocol
import OTAUpdate

/// The product and version of a device in range.
struct DeviceIdentity: Sendable {
    /// The product, or for a device with SMP its board name; nil: the device does not report it.
    var product: String?
    var version: String

    /// Reads them over one link, without a retry: a scan asks many devices, and can be repeated. Returns when the link has ended.
    ///
    /// - Parameters:
    ///   - admits: checks the device before the link opens.
    /// - Throws: `UpdateError`.
    init(
        of address: BluetoothAddress, _ definition: any ProtocolDefinition, over adapter: String,
        _ client: SharedBlueZClient, admits: @escaping @Sendable (BluetoothDevice) async throws(BlueZError) -> Void
    ) async throws(UpdateError) {
        let transport = BlueZTransport(
            .device(address), services: definition.services, adapter: adapter,
            pairing: definition.pairsToIdentify ? .unattended : .refusing, sharing: client, findsNewAddress: false,
            takesOver: false, admits: admits)
        let session = UpdateSession(try definition.identification(), seed: 0, attempts: 0)
        let device = try await UpdateRunner(clock: ContinuousClock(), awaitsLinkEnd: true).run(
            session, over: transport, interrupts: AsyncStream { _ in }
        ).device
        guard !device.runningVersion.isEmpty else {
            throw UpdateError(.unsupportedDevice, "the device does not report the running image")
        }
        (product, version) = (device.product, device.runningVersion)
    }
}
