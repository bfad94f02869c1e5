import OTAFirmware
import OTAUpdate

/// The first commands on each link: subscribe to Control and Progress; read Info, Version, Progress and the battery level.
struct Survey {
    private var info: DeviceInfo?
    private var version: SemanticVersion?
    private var progress: ProgressValue?
    private var battery: Int?
    private var awaited: Set<Command>
    let commands: [LinkCommand]

    /// A command of the survey. The device answers each command once.
    private enum Command: Hashable {
        case subscribe(Channel)
        case read(Channel)
    }

    /// Creates a survey.
    ///
    /// - Throws: `FrameError` if the device or the link does not support the profile.
    init(of link: LinkProperties) throws(FrameError) {
        guard ProfileChannel.required.isSubset(of: link.channels) else {
            throw FrameError(context: "the device does not offer the OTA service, or not all of it")
        }
        guard link.maximumValueLength >= 20 else {
            throw FrameError(context: "the link carries values of \(link.maximumValueLength) bytes, fewer than 20")
        }
        let subscriptions = [ProfileChannel.control, ProfileChannel.progress]
        var reads = [ProfileChannel.info, ProfileChannel.version, ProfileChannel.progress]
        if link.channels.contains(ProfileChannel.battery) { reads.append(ProfileChannel.battery) }
        commands = subscriptions.map { .subscribe($0) } + reads.map { .read($0) }
        awaited = Set(subscriptions.map { .subscribe($0) } + reads.map { .read($0) })
    }

    mutating func subscribed(to channel: Channel) { awaited.remove(.subscribe(channel)) }

    mutating func read(_ bytes: [UInt8], from channel: Channel) throws(FrameError) {
        guard awaited.remove(.read(channel)) != nil else { return }
        switch channel {
        case ProfileChannel.info: info = try DeviceInfo(parsing: bytes)
        case ProfileChannel.progress: progress = try ProgressValue(parsing: bytes)
        case ProfileChannel.version:
            guard let version = SemanticVersion(String(decoding: bytes, as: UTF8.self)) else {
                throw FrameError(context: "Version is not SemVer (\(Hex.encode(bytes)))")
            }
            self.version = version
        case ProfileChannel.battery:
            guard bytes.count == 1, bytes[0] <= 100 else {
                throw FrameError(context: "the battery level is not 0 to 100 (\(Hex.encode(bytes)))")
            }
            battery = Int(bytes[0])
        default: break
        }
    }

    /// The result; nil until all commands are answered.
    var snapshot: DeviceSnapshot? {
        guard awaited.isEmpty, let info, let version, let progress else { return nil }
        return DeviceSnapshot(info: info, version: version, state: progress.state, battery: battery)
    }
}

/// The status of the device at the start of a link.
struct DeviceSnapshot {
    var info: DeviceInfo
    var version: SemanticVersion
    var state: DeviceState
    /// The battery level in per cent; nil: mains powered.
    var battery: Int?

    /// The maximum accepted restart and trial times, in seconds. The frame could report up to 18 hours for each of them.
    private static let (mostRestartSeconds, mostTrialSeconds) = (600, 3600)

    /// The length of the restart window: two restarts and the trial, because the device may roll back after the trial.
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
