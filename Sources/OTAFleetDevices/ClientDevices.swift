public import OTAClient
internal import OTAFirmware
public import OTAFleet
public import OTAGateway
public import OTASigning
internal import OTATransport
internal import OTAUpdate

/// The devices of a gateway at given addresses, over any transport of OTAClient.
///
/// After a device has reported its product and version once, it always counts as heard. If the device is gone, a push to it ends without a
/// result, and the gateway tries again later.
public struct ClientDevices<C: Clock>: GatewayDevices where C.Duration == Duration {
    private let addresses: [DeviceID: DeviceAddress]
    private let options: Updater.Options
    private let clock: C

    /// - Parameters:
    ///   - addresses: the addresses of the devices.
    ///   - clock: measures the pause of 60 s before this type asks the devices without an answer again.
    /// - Throws: `AddressError` if an address has no device ID, or if two addresses have the same device ID.
    public init(_ addresses: [DeviceAddress], options: Updater.Options = Updater.Options(), clock: C) throws {
        var known: [DeviceID: DeviceAddress] = [:]
        for address in addresses {
            let id = try DeviceID(of: address)
            if let other = known.updateValue(address, forKey: id) {
                throw AddressError(
                    "'\(other.text)' and '\(address.text)' have the same device ID \(id)",
                    hint: "give each device once")
            }
        }
        self.addresses = known
        self.options = options
        self.clock = clock
    }

    public func hear(_ report: @escaping @Sendable (Sighting) -> Void) async {
        let finder = DeviceFinder(addresses, clock: clock) { [options] in
            try await Updater($0, options).status().report.device
        }
        await finder.run(report)
    }

    public func push(
        _ bundle: VerifiedBundle, to device: DeviceID, interrupts: AsyncStream<Void>,
        report: @escaping @Sendable (PushStep) -> Void
    ) async -> PushEnd {
        guard let address = addresses[device] else { return .retry(PushEnd.reason("no-such-device")) }
        return await PushBridge.run(interrupts, report) { accepted, progress in
            await push(bundle, to: address, accepted, report: progress)
        }
    }

    private func push(
        _ bundle: VerifiedBundle, to address: DeviceAddress, _ interrupts: AsyncStream<Void>,
        report: @escaping @Sendable (UpdateProgress) -> Void
    ) async -> PushEnd {
        do {
            let result = try await Updater(address, options).perform(
                .push(.bundle(bundle), UpdateOptions()), interrupts: interrupts
            ) { progress, _ in report(progress) }
            return PushEnd(result.report.outcome)
        } catch let error as UpdateError {
            return PushEnd(error)
        } catch {
            // The cause is on this computer, for example a lock of another process, or a file. The device is not the cause.
            return .retry(PushEnd.reason("device-in-use"))
        }
    }
}
