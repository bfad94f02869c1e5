import DescriptorIO
import OTAClient
import OTACommands
import OTAFleet
import OTAGateway

/// Shows the messages of a gateway and of its controller, and counts them in the metrics.
final class GatewayNotes: Sendable {
    private let console: Console
    private let warnings: RepeatedWarnings
    private let metrics: Guarded<FleetMetrics>
    private let hasIgnored = Guarded(false)

    init(_ console: Console, _ metrics: Guarded<FleetMetrics>) {
        (self.console, self.metrics, warnings) = (console, metrics, RepeatedWarnings(console))
    }

    func report(_ note: GatewayNote) {
        switch note {
        case .pushing(let device, let rollout, let attempt):
            console.note("\(device): update of the rollout \(rollout), attempt \(attempt)")
        case .ended(let device, let end, let isStored):
            metrics.with { $0.ended(end, stored: isStored) }
            let text =
                switch end {
                case .updated: "updated"
                case .retry(let reason): "no result (\(reason))"
                case .refused(let reason): "refused (\(reason))"
                case .failed(let reason): "failed (\(reason))"
                }
            console.note("\(device): \(text)\(isStored ? "" : "; the store does not have this result")")
        case .refused(let error): warnings.warn(error)
        case .storeFailed(let error): warnings.warn(error)
        case .notSaved(let text): warnings.warn(saving: text)
        }
    }

    func report(_ note: ControllerNote) {
        metrics.with { $0.note(note) }
        switch note {
        case .leads(let leads): console.debug("controller: \(leads ? "leads" : "does not lead")")
        case .counted: break
        case .wrote(let progress):
            let state = progress.state.rawValue
            console.debug("controller: \(progress.rollout) is \(state) in stage \(progress.stage + 1)")
        case .refused(let error): warnings.warn(error)
        case .storeFailed(let error): warnings.warn(error)
        case .notSaved(let text): warnings.warn(saving: text)
        }
    }

    func scanFailed(_ error: any Error, in invocation: Invocation) {
        let failure = Failure(error, in: invocation)
        warnings.warn("the scan for Bluetooth devices failed: \(failure.message)", hint: failure.hint)
    }

    /// Warns about the first device that changes its address. All its later addresses would be new devices, so the others are not shown.
    func ignored(_ device: ScannedDevice) {
        guard !hasIgnored.exchange(true) else { return }
        console.warn(
            "\(device.address)\(device.name.map { " (\($0))" } ?? "") is ignored: it changes its Bluetooth address, so a fleet cannot record it",
            hint: "use a public or a static random address in the firmware, or pair the device: bluetoothctl pair")
    }
}
