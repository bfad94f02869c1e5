import OTASMP
import OTAUpdate
import Testing

/// Runs a session and a device, whose answers come from a closure. The link has no delay.
///
/// If there are no events, the time advances to the session's deadline. A session that does not end fails the test.
struct PlayedDevice {
    /// The device's reaction to a packet.
    enum Reply {
        case fields([String: CBORValue])
        /// The device notifies these values.
        case values([[UInt8]])
        case silence
        case loss
    }
    private static let mostEvents = 50_000

    private(set) var reports: [UpdateProgress] = []
    /// The packets that reached the device.
    private(set) var frames: [SMPFrame] = []
    /// The numbers of the packets in `frames` that were written with response.
    private(set) var written: [Int] = []
    private(set) var links = 0
    /// The numbers of the links whose candidate was accepted.
    private(set) var accepted: [Int] = []
    /// The number of packets in each burst, without uploads.
    private(set) var bursts: [Int] = []
    /// The largest number of chunks in one burst, by the number of the link. Links are numbered from 1.
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
    /// - Parameters:
    ///   - shorterLinks: The longest value in bytes, by the number of the link. Links are numbered from 1.
    ///   - framingOverhead: The bytes of the device's buffer that the framing of each value needs.
    ///   - isDatagram: Whether each packet is one message, as over UDP.
    ///   - line: The serial line without frames that carries the packets; nil: each value arrives complete.
    ///   - refusal: The error with which the device refuses each write with response; nil: the device accepts them.
    ///   - candidate: The address of the candidate for the next link, by the rejected candidates. If it is given, the device does not answer
    ///     at its address after its restart. Nil: it answers at its address on each link.
    init(
        _ task: UpdateTask<[SMPImage]>, valueLength: Int = 4096, shorterLinks: [Int: Int] = [:],
        framingOverhead: Int = 0, isDatagram: Bool = false, line: RawLine? = nil, seed: UInt64 = 1,
        refusal: LinkError? = nil,
        candidate: ((Set<String>) -> String?)? = nil, answering: (SMPFrame, Int) -> Reply
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
        var line = line
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
                case .acceptCandidate: accepted.append(links)
                case .connect where candidate != nil && accepted.isEmpty && frames.contains { $0.isReset }:
                    events.append(.linkDown(LinkError(.timedOut, "no device")))
                case .connect, .find:
                    var address: String?
                    if case .find(let rejected) = action, let candidate {
                        address = candidate(rejected)
                        guard address != nil else {
                            events.append(.linkDown(LinkError(.timedOut, "no advertisement was seen")))
                            break
                        }
                    }
                    links += 1
                    isUp = true
                    assembler = SMPFrameAssembler()
                    let length = shorterLinks[links] ?? valueLength
                    events.append(
                        .linkUp(
                            LinkProperties(
                                channels: [SMPChannel.value], maximumValueLength: length,
                                preservesMessageBoundaries: isDatagram, framingOverhead: framingOverhead,
                                discardTime: line == nil ? .zero : .milliseconds(3500), candidate: address)))
                case .disconnect:
                    events = isUp ? [.linkDown(LinkError(.lost, "closed"))] : []
                    isUp = false
                case .link(.subscribe(let channel)): events.append(.link(.subscribed(channel)))
                case .link(.write(_, let channel)) where refusal != nil:
                    written.append(frames.count)
                    if let refusal { events.append(.link(.refused(refusal, channel))) }
                case .link(.send), .link(.write):
                    var values: [[UInt8]] = []
                    switch action {
                    case .link(.send(let sent, _)): values = sent
                    case .link(.write(let value, let channel)):
                        values = [value]
                        written.append(frames.count)
                        events.append(.link(.written(channel)))
                    default: break
                    }
                    for value in values.flatMap({ line?.deliver($0, at: now) ?? [$0] }) {
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
                case .link, .encode, .stage: break
                case .report(let progress): reports.append(progress)
                case .finish(let report): outcome = .success(report)
                case .fail(let error): outcome = .failure(error)
                }
            }
            mostChunks[links] = max(mostChunks[links] ?? 0, frames[before...].count { $0.isUpload })
            let burst = frames[before...].count { !$0.isUpload }
            if burst > 0 { bursts.append(burst) }
        }
        if outcome == nil { Issue.record("the session does not end") }
    }
}

extension SMPFrame {
    /// Returns the bytes of an answer to this packet.
    func answer(_ fields: [String: CBORValue], version: Version? = nil) -> [UInt8] {
        SMPFrame(
            version: version ?? self.version, operation: operation == .read ? .readAnswer : .writeAnswer, group: group,
            sequence: sequence, command: command, body: CBOREncoder.encode(.map(fields))
        ).bytes
    }

    /// The text of an echo request.
    var echo: String? { group == 0 && command == 0 ? fields["d"]?.text : nil }
    /// Whether the packet marks an image or checks whether images can be marked.
    var isMark: Bool { group == 1 && command == 0 && operation == .write }
    var isReset: Bool { group == 0 && command == 5 }
    var isUpload: Bool { group == 1 && command == 1 }
    var fields: [String: CBORValue] { (try? CBORDecoder.decode(body))?.map ?? [:] }
}
