import BlueZ
import Logging
import OTAFirmware
import OTAProtocol
import OTAUpdate

/// Logs the events and actions between a session and its runner. All transports use the runner, so this type logs the frames of all
/// transports.
///
/// The start and the end of each link are logged at level `debug`. Each frame is logged at level `trace`, with its channel and its bytes
/// as hex digits. The sign `>` marks a frame to the device, `<` a frame from the device. The bytes of the update are left out, unless
/// `LoggedData` is `bytes`. The log contains no passkey, because the session does not receive the frames of the pairing.
struct LoggedSession<Session: UpdateLogic>: UpdateLogic {
    private var session: Session
    private let logger: Logger
    private let data: LoggedData

    init(_ session: Session, _ logger: Logger, _ data: LoggedData) {
        self.session = session
        self.logger = logger
        self.data = data
    }

    var deadline: Duration? { session.deadline }

    mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        log(event, now)
        let actions = session.handle(event, at: now)
        for action in actions { log(action, now) }
        return actions
    }

    private func log(_ event: UpdateEvent, _ now: Duration) {
        switch event {
        case .started, .deadlinePassed: break
        case .linkUp(let link):
            let channels = link.channels.map(\.logName).sorted().joined(separator: ", ")
            // UDP and serial links preserve message boundaries and have no Bluetooth MTU. So the log omits the MTU for these links.
            let mtu = link.preservesMessageBoundaries ? "" : " (MTU \(link.maximumValueLength + 3))"
            if let candidate = link.candidate { logger.debug("\(now.logText) < candidate \(candidate)") }
            logger.debug(
                "\(now.logText) < link open: values of at most \(link.maximumValueLength) bytes\(mtu); channels: \(channels)"
            )
        case .linkDown(let error): log(error, "link ended", now)
        case .encoded(let request, .success(let image)?):
            logger.debug(
                "\(now.logText) < encoded from byte \(request.offset), \(request.logName): \(image.bytes.count) bytes")
        case .encoded(let request, .failure(let failure)?):
            logger.debug("\(now.logText) < not encoded from byte \(request.offset), \(request.logName): \(failure)")
        case .encoded(_, nil): break
        case .interrupted: logger.debug("\(now.logText) < interrupted")
        case .link(.refused(let error, let channel)): log(error, "refused \(channel.logName)", now)
        case .link(.subscribed(let channel)): frame("< subscribed", channel, now)
        case .link(.written(let channel)): frame("< written", channel, now)
        case .link(.value(let bytes, let channel)): frame("< value", channel, now, bytes)
        case .link(.notified(let bytes, let channel)): frame("< notified", channel, now, bytes)
        }
    }

    private func log(_ action: UpdateAction, _ now: Duration) {
        switch action {
        case .connect(.device): logger.debug("\(now.logText) > connect")
        case .connect(.program): logger.debug("\(now.logText) > connect to the running program of the device")
        case .find(let rejected):
            let without = rejected.isEmpty ? "" : ", except \(rejected.sorted().joined(separator: ", "))"
            logger.debug("\(now.logText) > connect to the device or to a candidate\(without)")
        case .acceptCandidate: logger.debug("\(now.logText) > accept the candidate")
        case .disconnect: logger.debug("\(now.logText) > disconnect")
        case .encode(let request):
            logger.debug("\(now.logText) > encode from byte \(request.offset), \(request.logName)")
        case .link(.subscribe(let channel)): frame("> subscribe", channel, now)
        case .link(.read(let channel)): frame("> read", channel, now)
        case .link(.write(let bytes, let channel)): frames("> write", channel, now, [bytes])
        case .link(.send(let values, let channel)): frames("> send", channel, now, values)
        // These actions are not logged here, because they go to the caller, which shows the progress and the result to the user.
        case .report, .stage, .finish, .fail: break
        }
    }

    private func log(_ error: LinkError, _ what: String, _ now: Duration) {
        logger.debug("\(now.logText) < \(what): \(error.code.rawValue): \(error.detail)")
    }

    /// Logs the values of one packet to the device, with or without the bytes of the update.
    private func frames(_ direction: String, _ channel: Channel, _ now: Duration, _ values: [[UInt8]]) {
        guard logger.logLevel <= .trace else { return }
        for value in data.logged(values, on: channel) {
            let hidden = value.hidden > 0 ? "\(value.hidden) bytes of the update" : ""
            let text = [Hex.encode(value.bytes), hidden].filter { !$0.isEmpty }.joined(separator: " and ")
            logger.trace("\(now.logText) \(direction) \(channel.logName) \(text)")
        }
    }

    private func frame(_ direction: String, _ channel: Channel, _ now: Duration, _ bytes: [UInt8] = []) {
        logger.trace(
            "\(now.logText) \(direction) \(channel.logName)\(bytes.isEmpty ? "" : " ")\(Hex.encode(bytes))")
    }
}

/// The part of the frames with bytes of the update, such as the image, that a log has.
package enum LoggedData: Sendable {
    /// The log does not have these frames.
    case nothing
    /// The log has the start of these frames, such as the sequence number or the offset, and the number of the other bytes.
    case lengths
    /// The log has these frames completely.
    case bytes

    /// Returns the values of one packet to the device as the log has them: the logged bytes, and the number of bytes that are left out.
    func logged(_ values: [[UInt8]], on channel: Channel) -> [(bytes: [UInt8], hidden: Int)] {
        let visible = Protocols.definition(of: channel)?.headers(of: values, on: channel)
        guard self != .bytes, let visible else { return values.map { ($0, 0) } }
        guard self == .lengths else { return [] }
        return zip(values, visible).map { (Array($0.prefix($1)), $0.count - $1) }
    }
}

extension EncodingRequest {
    /// The name of the base; `no base` if the image is only compressed.
    fileprivate var logName: String { base.map { "base \($0.name)" } ?? "no base" }
}

extension Channel {
    /// The name of the channel in its protocol; for an unknown channel, the UUID of the characteristic.
    fileprivate var logName: String {
        Protocols.definition(of: self)?.channelNames[self] ?? "\(BluetoothUUID(characteristic))"
    }
}

extension Duration {
    /// The time since the start of the session in seconds, for example `0.350 s`.
    fileprivate var logText: String {
        let milliseconds = components.seconds * 1000 + components.attoseconds / 1_000_000_000_000_000
        let fraction = String(milliseconds % 1000)
        return "\(milliseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction) s"
    }
}
