import Gauntlet
import OTAProfile
import OTASigning
import OTAUpdate

/// A whole session of the profile, whose device is the input's.
enum SessionFuzz {
    private static let release = try? FuzzRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "there is no release" }
        var input = FuzzInput(bytes)
        let task = input.next()
        if task >= FuzzInput.hostile { return HostileRun.offence(overSMP: false) { input.number(in: $0) } }
        guard let conversation = try? ProfileConversation(release.task(task)) else {
            return "the task is not supported"
        }
        let session = UpdateSession(conversation, seed: UInt64(input.next()))
        var peer = ProfilePeer(release: release)
        return peer.run(session, &input)
    }
}

private struct ProfilePeer: FuzzPeer {
    private static let channels = [
        ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
        ProfileChannel.version, ProfileChannel.battery,
    ]

    let release: FuzzRelease
    /// Of the last request.
    private var tag: UInt8 = 0

    init(release: FuzzRelease) { self.release = release }

    mutating func hear(_ action: UpdateAction) -> String? {
        switch action {
        case .link(.write(let value, ProfileChannel.control)) where value.count >= 2: tag = value[1]
        case .link(.send(let values, _)):
            if values.contains(where: { $0.count < 3 || $0.count > 512 }) { return "a chunk of the wrong size" }
        default: break
        }
        return nil
    }

    mutating func event(_ input: inout FuzzInput, at now: inout Duration, deadline: Duration?) -> UpdateEvent {
        let channels = Self.channels
        let what = input.next()
        let channel = channels[Int(what >> 4) % channels.count]
        switch what & 15 {
        case 0: return .linkUp(LinkProperties(channels: Set(channels), maximumValueLength: Int(input.next()) * 2))
        case 1: return .link(.subscribed(channel))
        case 2: return .link(.value(input.bytes(upTo: Int(input.next())), channel))
        case 3: return .link(.notified(input.bytes(upTo: Int(input.next())), channel))
        case 4: return .link(.written(channel))
        case 5: return .link(.refused(LinkError(what & 128 == 0 ? .refused : .notPermitted, "fuzz"), channel))
        case 6: return .linkDown(LinkError(.lost, "fuzz"))
        case 7: return .link(.lost(LinkError(.lost, "fuzz")))
        case 8: return .interrupted
        case 9:
            now += .milliseconds(Int(input.nextNumber()))
            return .deadlinePassed
        case 10: return .link(.value(release.info(input.next()), ProfileChannel.info))
        case 11: return .link(.value(Array("1.\(what >> 4 & 1).0".utf8), ProfileChannel.version))
        case 12:
            return .link(.value([input.next() % 6, 0] + [UInt8](repeating: 0, count: 10), ProfileChannel.progress))
        case 13:
            // An answer under the right tag.
            return .link(.notified([0x80 | input.next(), tag] + input.bytes(upTo: 11), ProfileChannel.control))
        case 14: return .link(.notified([0x81, tag, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0], ProfileChannel.control))
        default:
            now = max(now, deadline ?? now)
            return .deadlinePassed
        }
    }
}
