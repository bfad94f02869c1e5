import OTAFirmware
import OTAUpdate

/// What every connection begins with: subscribe to Control and Progress, read Info, Version, Progress and the battery.
struct Survey {
    private(set) var info: DeviceInfo?
    private(set) var version: SemanticVersion?
    private(set) var progress: ProgressValue?
    private(set) var battery: Int?
    private var awaited: Set<LinkCommandKey>
    let commands: [LinkCommand]

    /// A device answers each of the commands once.
    private enum LinkCommandKey: Hashable {
        case subscribe(Channel)
        case read(Channel)
    }

    /// Throws where the device does not speak the profile.
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

    var isComplete: Bool { awaited.isEmpty }

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

    /// What it found; nil until it is complete.
    var snapshot: DeviceSnapshot? {
        guard isComplete, let info, let version, let progress else { return nil }
        return DeviceSnapshot(info: info, version: version, state: progress.state, battery: battery)
    }
}
