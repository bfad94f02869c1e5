package import OTAClient
internal import OTAFirmware
package import OTAFleet
package import OTAGateway
package import OTAUpdate

/// Asks devices for their product and version until each one has answered. Does not ask the devices that the gateway has updated, because
/// their records have both: a restarted gateway with hundreds of devices would otherwise ask all of them again. Asks a device that another
/// gateway updates after the update, or when that gateway does not write any more.
///
/// A gateway starts its first update as soon as one device has answered. At most ``atOnce`` devices are asked at the same time, because
/// each open link needs a thread and a socket. A device without an answer is asked again after 60 s; it does not delay the others.
package struct DeviceFinder<C: Clock>: Sendable where C.Duration == Duration {
    private enum Event: Sendable {
        /// The sighting is nil if the device did not answer.
        case answered(DeviceID, Sighting?)
        /// Another gateway updates the device.
        case inUse(DeviceID, revision: UInt64)
        case due(DeviceID)
    }

    /// The maximum number of devices that are asked at the same time.
    package static var atOnce: Int { 16 }
    private static var pause: Duration { .seconds(60) }
    /// The pause before the record of a device in use is read again. A gateway that runs changes the record in this time.
    private static var pauseInUse: Duration { .seconds(20) }

    private let addresses: [DeviceID: DeviceAddress]
    private let clock: C
    private let record: @Sendable (DeviceID) async -> RecordedUse
    private let status: @Sendable (DeviceAddress) async throws -> DeviceDescription

    /// - Parameters:
    ///   - record: returns what the device's record shows (``GatewayDevices/hear(record:report:)``).
    ///   - status: asks a device. An error means that the device did not answer.
    package init(
        _ addresses: [DeviceID: DeviceAddress], clock: C, record: @escaping @Sendable (DeviceID) async -> RecordedUse,
        status: @escaping @Sendable (DeviceAddress) async throws -> DeviceDescription
    ) {
        self.addresses = addresses
        self.clock = clock
        self.record = record
        self.status = status
    }

    /// Runs until all devices have answered, or until the task is cancelled.
    package func run(_ report: (Sighting) -> Void) async {
        await withTaskGroup(of: Event.self) { group in
            var waiting = addresses.keys.sorted()[...]
            var asked = 0
            // The revisions at which devices in use were seen last.
            var seen: [DeviceID: UInt64] = [:]
            while !Task.isCancelled {
                while asked < Self.atOnce, let device = waiting.popFirst() {
                    guard let address = addresses[device] else { continue }
                    asked += 1
                    let earlier = seen[device]
                    group.addTask { await find(device, address, seen: earlier) }
                }
                switch await group.next() {
                case nil: return
                case .due(let device): waiting.append(device)
                case .answered(_, let sighting?):
                    asked -= 1
                    report(sighting)
                case .answered(let device, nil):
                    asked -= 1
                    wait(Self.pause, for: device, in: &group)
                case .inUse(let device, let revision):
                    asked -= 1
                    seen[device] = revision
                    wait(Self.pauseInUse, for: device, in: &group)
                }
            }
            group.cancelAll()
        }
    }

    private func wait(_ pause: Duration, for device: DeviceID, in group: inout TaskGroup<Event>) {
        group.addTask { [clock] in
            try? await clock.sleep(for: pause, tolerance: nil)
            return .due(device)
        }
    }

    /// - Parameter seen: the revision at which the device was in use at the last call.
    private func find(_ device: DeviceID, _ address: DeviceAddress, seen: UInt64?) async -> Event {
        switch await record(device) {
        case .updatedHere: return .answered(device, .heard(device, product: nil, version: nil, rssi: nil))
        case .inUse(let revision) where revision != seen: return .inUse(device, revision: revision)
        case .inUse, .free: return .answered(device, try? await .heard(device, status(address), rssi: nil))
        }
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
