import OTAFirmware
import OTAUpdate

/// What a survey found: the device as it stands at the beginning of a connection.
struct Finding {
    var info: DeviceInfo
    var version: SemanticVersion
    var state: DeviceState
    /// Per cent; nil: mains.
    var battery: Int?

    /// How long a device may stay away that restarts: it may go back by itself, and restart once more for that.
    var longestReturn: Duration { .seconds(2 * info.restartSeconds + info.trialSeconds) }

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
