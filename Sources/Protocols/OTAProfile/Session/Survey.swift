import OTAFirmware
import OTAUpdate

/// Reads the device's status at the start of each link.
///
/// A survey subscribes to Control and Progress. It then reads Info, Version and Progress. If the device has a battery, the survey also
/// reads the battery level.
struct Survey {
    private var info: DeviceInfo?
    private var version: SemanticVersion?
    private var progress: ProgressValue?
    private var battery: Int?
    /// The commands that the caller must send, in order.
    let commands: [LinkCommand]
    /// The commands that the device has not answered yet.
    private var awaited: [LinkCommand]

    /// Creates a survey for a link that has just opened.
    ///
    /// - Throws: ``FrameError`` if a required channel is missing, or if the link cannot carry values of 20 bytes.
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
        awaited = commands
    }

    /// Records an accepted subscription, or parses a value that was read. A value that the survey does not wait for is ignored.
    ///
    /// - Throws: ``FrameError`` if the value is malformed.
    mutating func handle(_ event: LinkEvent) throws(FrameError) {
        switch event {
        case .subscribed(let channel): awaited.removeAll { $0 == .subscribe(channel) }
        case .value(let bytes, let channel) where awaited.contains(.read(channel)): try read(bytes, from: channel)
        default: break
        }
    }

    private mutating func read(_ bytes: [UInt8], from channel: Channel) throws(FrameError) {
        awaited.removeAll { $0 == .read(channel) }
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

    /// The device's status; nil until the device has answered all commands.
    var snapshot: DeviceSnapshot? {
        guard awaited.isEmpty, let info, let version, let progress else { return nil }
        return DeviceSnapshot(info: info, version: version, state: progress.state, battery: battery)
    }
}

/// The status of the device at the start of a link.
struct DeviceSnapshot {
    var info: DeviceInfo
    /// The version of the running firmware.
    var version: SemanticVersion
    var state: DeviceState
    /// The battery level in per cent; nil if the device runs on mains power.
    var battery: Int?

    /// The maximum restart time and the maximum trial time that the host accepts, in seconds (docs/ota-profile.md, "What the host does").
    ///
    /// Info has 16 bits for each time, so a device could report up to 18 hours. If a reported time is longer than the maximum, the host
    /// uses the maximum.
    private static let (mostRestartSeconds, mostTrialSeconds) = (600, 3600)

    /// The time that the session waits for the device after APPLY, CONFIRM or DISCARD. A link that is lost near the end extends this time
    /// (`RetryPolicy.lost`).
    ///
    /// The time consists of one restart, the trial, and a second restart. The second restart occurs if the device rolls back.
    var longestReturn: Duration {
        .seconds(
            2 * min(info.restartSeconds, Self.mostRestartSeconds) + min(info.trialSeconds, Self.mostTrialSeconds))
    }

    /// The device's status in the form that the session reports to the user.
    var description: DeviceDescription {
        var description = DeviceDescription(
            product: info.product,
            hardware: Int(info.hardware),
            securityCounter: info.securityCounter,
            state: state == .trial ? .trial : state == .idle ? .idle : .receiving,
            runningVersion: version.text,
            trialSeconds: info.trialSeconds,
            battery: battery,
            held: info.held.map {
                DeviceDescription.HeldImage(manifestDigestPrefix: $0.manifestDigestPrefix, offset: $0.offset)
            },
            encodings: info.largestBase == nil ? [] : [.lzma2],
            largestBase: info.largestBase.map { Int($0) })
        description.manifestDigestPrefix = info.running
        description.keys = info.keys
        return description
    }
}
