import OTAProfile
import OTASigning
import OTAUpdate

/// A whole session whose link, device and clock are the input's: it ends once, and says nothing afterwards.
enum SessionFuzz {
    private static let release = try? FuzzRelease()

    static func run(_ bytes: [UInt8]) -> String? {
        guard let release else { return "there is no release" }
        var input = FuzzInput(bytes)
        var session = ProfileSession(release.task(input.next()), seed: UInt64(input.next()))
        var now = Duration.zero
        var hasEnded = false
        var tag: UInt8 = 0
        var event = UpdateEvent.started
        while true {
            let actions = session.handle(event, at: now)
            if hasEnded, !actions.isEmpty { return "it goes on behind its end" }
            for action in actions {
                switch action {
                case .finish, .fail:
                    if hasEnded { return "it ends twice" }
                    hasEnded = true
                case .link(.write(let value, ProfileChannel.control)) where value.count >= 2: tag = value[1]
                case .link(.send(let values, _)):
                    if values.contains(where: { $0.count < 3 || $0.count > 512 }) { return "a chunk of the wrong size" }
                default: break
                }
            }
            if hasEnded != (session.deadline == nil) {
                return hasEnded ? "it waits behind its end" : "it waits for ever"
            }
            guard !input.isEmpty else { return nil }
            event = next(&input, release, tag: tag, session.deadline, &now)
        }
    }

    private static func next(
        _ input: inout FuzzInput, _ release: FuzzRelease, tag: UInt8, _ deadline: Duration?, _ now: inout Duration
    ) -> UpdateEvent {
        let channels = [
            ProfileChannel.info, ProfileChannel.control, ProfileChannel.data, ProfileChannel.progress,
            ProfileChannel.version, ProfileChannel.battery,
        ]
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
