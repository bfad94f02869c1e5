internal import OTAClient
internal import OTAFirmware
internal import OTAFleet
internal import OTAGateway
internal import OTAUpdate

/// Asks devices for their product and version until each one has answered.
actor DeviceFinder<C: Clock> where C.Duration == Duration {
    private var missing: [DeviceID: DeviceAddress]
    private var found: [Sighting] = []
    private var isFirst = true
    private let clock: C
    private let status: @Sendable (DeviceAddress) async throws -> DeviceDescription

    init(
        _ addresses: [DeviceID: DeviceAddress], clock: C,
        status: @escaping @Sendable (DeviceAddress) async throws -> DeviceDescription
    ) {
        missing = addresses
        self.clock = clock
        self.status = status
    }

    /// Returns the next device that has answered; nil if all have answered, or if the task is cancelled.
    func next() async -> Sighting? {
        while found.isEmpty {
            guard !missing.isEmpty, !Task.isCancelled else { return nil }
            if !isFirst { try? await clock.sleep(for: .seconds(60), tolerance: nil) }
            isFirst = false
            let status = status
            let answers = await withTaskGroup(of: (DeviceID, DeviceDescription?).self) { group in
                for (device, address) in missing {
                    group.addTask { (device, try? await status(address)) }
                }
                var answers: [(DeviceID, DeviceDescription?)] = []
                for await answer in group { answers.append(answer) }
                return answers
            }
            for case (let device, let description?) in answers.sorted(by: { $0.0 < $1.0 }) {
                missing[device] = nil
                found.append(
                    .heard(
                        device, product: description.product.flatMap { ProductName($0) },
                        version: SemanticVersion(description.runningVersion), rssi: nil))
            }
        }
        return found.removeFirst()
    }
}
