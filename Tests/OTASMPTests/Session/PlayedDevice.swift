import OTASMP
import OTAUpdate
import Testing

/// A session and a device played by a closure, over a link that takes no time. When nothing is to be done, time jumps to the
/// session's deadline; a session that goes on for ever is a failed test.
struct PlayedDevice {
    /// What the device does with a packet.
    enum Reply {
        case fields([String: CBORValue])
        /// Whatever values are notified.
        case values([[UInt8]])
        case silence
        case loss
    }
    private static let mostEvents = 50_000

    private(set) var reports: [UpdateProgress] = []
    /// The packets that reached the device.
    private(set) var frames: [SMPFrame] = []
    private(set) var links = 0
    /// How many packets went out at once, chunks not counted, each time that any did.
    private(set) var bursts: [Int] = []
    /// The most chunks that went out at once over each link, by its number, which begins with 1.
    private(set) var mostChunks: [Int: Int] = [:]
    private(set) var now = Duration.zero
    private(set) var outcome: Result<UpdateReport, UpdateError>?

    var error: UpdateError.Code? {
        if case .failure(let error) = outcome { return error.code }
        return nil
    }
    var report: UpdateReport? { try? outcome?.get() }

    /// Runs the task to its end.
    ///
    /// - Parameter shorterLinks: by the number of the link, which begins with 1: its longest value in bytes.
    init(
        _ task: UpdateTask<[SMPImage]>, valueLength: Int = 4096, shorterLinks: [Int: Int] = [:], seed: UInt64 = 1,
        answering: (SMPFrame, Int) -> Reply
    ) {
        var session: UpdateSession
        do throws(UpdateError) {
            session = UpdateSession(try SMPConversation(task), seed: seed)
        } catch {
            outcome = .failure(error)
            return
        }
        var events: [UpdateEvent] = [.started]
        var assembler = SMPFrameAssembler()
        var isUp = false
        for _ in 0..<Self.mostEvents {
            guard outcome == nil else { return }
            if events.isEmpty {
                guard let deadline = session.deadline else { break }
                now = max(now, deadline)
                events.append(.deadlinePassed)
            }
            let before = frames.count
            for action in session.handle(events.removeFirst(), at: now) {
                switch action {
                case .connect:
                    links += 1
                    isUp = true
                    assembler = SMPFrameAssembler()
                    let length = shorterLinks[links] ?? valueLength
                    events.append(.linkUp(LinkProperties(channels: [SMPChannel.value], maximumValueLength: length)))
                case .disconnect:
                    events = isUp ? [.linkDown(LinkError(.lost, "closed"))] : []
                    isUp = false
                case .link(.subscribe(let channel)): events.append(.link(.subscribed(channel)))
                case .link(.send(let values, _)):
                    for value in values {
                        for frame in (try? assembler.take(value)) ?? [] {
                            frames.append(frame)
                            switch answering(frame, links) {
                            case .fields(let fields):
                                events.append(.link(.notified(frame.answer(fields), SMPChannel.value)))
                            case .values(let values):
                                events += values.map { .link(.notified($0, SMPChannel.value)) }
                            case .silence: break
                            case .loss:
                                events = [.linkDown(LinkError(.lost, "lost"))]
                                isUp = false
                            }
                        }
                    }
                case .link: break
                case .report(let progress): reports.append(progress)
                case .finish(let report): outcome = .success(report)
                case .fail(let error): outcome = .failure(error)
                }
            }
            mostChunks[links] = max(mostChunks[links] ?? 0, frames[before...].count { $0.isUpload })
            let burst = frames[before...].count { !$0.isUpload }
            if burst > 0 { bursts.append(burst) }
        }
        if outcome == nil { Issue.record("the session does not come to an end") }
    }
}

extension SMPFrame {
    /// The answer to this packet.
    func answer(_ fields: [String: CBORValue], version: Version? = nil) -> [UInt8] {
        SMPFrame(
            version: version ?? self.version, operation: operation == .read ? .readAnswer : .writeAnswer, group: group,
            sequence: sequence, command: command, body: CBOREncoder.encode(.map(fields))
        ).bytes
    }

    /// The text that is to be echoed.
    var echo: String? { group == 0 && command == 0 ? fields["d"]?.text : nil }
    /// It marks an image, or asks whether images can be marked.
    var isMark: Bool { group == 1 && command == 0 && operation == .write }
    var isUpload: Bool { group == 1 && command == 1 }
    var fields: [String: CBORValue] { (try? CBORDecoder.decode(body))?.map ?? [:] }
}
