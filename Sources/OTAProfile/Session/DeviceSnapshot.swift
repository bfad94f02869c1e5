import OTAFirmware
import OTAUpdate

/// What a survey found: the device as it stands at the beginning of a connection.
struct DeviceSnapshot {
    var info: DeviceInfo
    var version: SemanticVersion
    var state: DeviceState
    /// Per cent; nil: mains.
    var battery: Int?

    /// The most that is believed of the times that a device announces, in seconds; both may be 18 hours in the frame.
    private static let (mostRestartSeconds, mostTrialSeconds) = (600, 3600)

    /// How long a device that restarts is looked for: it may roll back by itself, and restart a second time for that.
    var longestReturn: Duration {
        .seconds(
            2 * min(info.restartSeconds, Self.mostRestartSeconds) + min(info.trialSeconds, Self.mostTrialSeconds))
    }

    var description: DeviceDescription {
        DeviceDescription(
            product: info.product,
            hardware: Int(info.hardware),
            securityCounter: info.securityCounter,
            state: state == .trial ? .trial : state == .idle ? .idle : .receiving,
            runningVersion: version.text,
            trialSeconds: info.trialSeconds,
            battery: battery,
            held: info.held.map {
                DeviceDescription.HeldImage(manifestDigestPrefix: $0.manifestDigestPrefix, offset: $0.offset)
            })
    }
}
