package import OTAClient
internal import OTAFirmware
package import OTAFleet
package import OTAGateway
package import OTAUpdate

/// Asks devices for their product and version until each one has answered. Does not ask the devices that the gateway has updated, because
/// their records have both: a restarted gateway with hundreds of devices would otherwise ask all of them again.
///
/// A gateway starts its first update as soon as one device has answered. At most ``atOnce`` devices are asked at the same time, because
/// each open link needs a thread and a socket. A device without an answer is asked again after 60 s; it does not delay the others.
package struct DeviceFinder<C: Clock>: Sendable where C.Duration == Duration {
    private enum Event: Sendable {
        /// The sighting is nil if the device did not answer.
        case answered(DeviceID, Sighting?)
        case due(DeviceID)
    }

    /// The maximum number of devices that are asked at the same time.
    package static var atOnce: Int { 16 }
    private static var pause: Duration { .seconds(60) }

    private let addresses: [DeviceID: DeviceAddress]
    private let clock: C
    private let isUpdated: @Sendable (DeviceID) async -> Bool
    private let status: @Sendable (DeviceAddress) async throws -> DeviceDescription

    /// - Parameters:
    ///   - isUpdated: returns true if the gateway has updated the device (``GatewayDevices/hear(isUpdated:report:)``).
    ///   - status: asks a device. An error means that the device did not answer.
    package init(
        _ addresses: [DeviceID: DeviceAddress], clock: C, isUpdated: @escaping @Sendable (DeviceID) async -> Bool,
        status: @escaping @Sendable (DeviceAddress) async throws -> DeviceDescription
    ) {
        self.addresses = addresses
        self.clock = clock
        self.isUpdated = isUpdated
        self.status = status
    }

    /// Runs until all devices have answered, or until the task is cancelled.
    package func run(_ report: (Sighting) -> Void) async {
        await withTaskGroup(of: Event.self) { group in
            var waiting = addresses.keys.sorted()[...]
            var asked = 0
            while !Task.isCancelled {
                while asked < Self.atOnce, let device = waiting.popFirst() {
                    guard let address = addresses[device] else { continue }
                    asked += 1
                    group.addTask { .answered(device, await find(device, address)) }
                }
                switch await group.next() {
                case nil: return
                case .due(let device): waiting.append(device)
                case .answered(_, let sighting?):
                    asked -= 1
                    report(sighting)
                case .answered(let device, nil):
                    asked -= 1
                    group.addTask { [clock] in
                        try? await clock.sleep(for: Self.pause, tolerance: nil)
                        return .due(device)
                    }
                }
            }
            group.cancelAll()
        }
    }

    private func find(_ device: DeviceID, _ address: DeviceAddress) async -> Sighting? {
        if await isUpdated(device) { return .heard(device, product: nil, version: nil, rssi: nil) }
        return try? await .heard(device, status(address), rssi: nil)
    }
}

extension Sighting {
    /// Creates the sighting of a device that has reported its product and version. An invalid product or version counts as not read.
    static func heard(_ device: DeviceID, _ description: DeviceDescription, rssi: Int?) -> Sighting {
        .heard(
            device, product: description.product.flatMap { ProductName($0) },
            version: SemanticVersion(description.runningVersion), rssi: rssi)
    }
}
