import OTAFirmware
package import OTASigning
package import OTAUpdate

/// Checks whether a device follows docs/ota-profile.md, rule by rule. It never sends APPLY for a verified image, so the device keeps its
/// running image.
///
/// Like `UpdateSession`, this is a value that receives events and returns actions, so it runs over every transport.
package struct DeviceCheck: UpdateLogic {
    private enum Phase {
        case connecting
        /// The link is closed to open another one.
        case closing
        /// Waits before the next attempt to connect.
        case pausing
        /// Reads Progress of a new link, before the first request on it.
        case inspecting
        case subscribing(left: Set<Channel>)
        /// Waits for the response of ATT (`isWritten`), and for the answer.
        case asking([UInt8], tag: UInt8, isWritten: Bool, answer: [UInt8]?)
        /// The device was busy. The request is sent again.
        case busy([UInt8])
        case writing(Channel)
        case reading(Channel)
        /// Waits for notifications of Progress; the wait ends early after one that matches.
        case listening(@Sendable (ProgressValue) -> Bool)
        case ended
    }

    private static let pauses: [Duration] = [.milliseconds(500), .seconds(1), .seconds(2), .seconds(4)]
    private static let answerLimit = Duration.seconds(10)
    /// BEGIN and FINISH may read or erase flash.
    private static let longAnswerLimit = Duration.seconds(30)
    private static let busyLimit = Duration.seconds(90)
    /// The wait for another notification, after one that matches.
    private static let echoTime = Duration.milliseconds(500)
    private static let mostNotifications = 10_000
    private static let required: Set<Channel> = [ProfileChannel.control, ProfileChannel.progress]

    private let rules: [CheckRule]
    private var memory: CheckMemory
    private var results: [CheckResult] = []
    private var step = 0
    private var tag: UInt8
    private var now = Duration.zero
    private var phase = Phase.connecting
    private var attempts = 0
    private var hasConnected = false
    private var isOpen = false
    private var isSubscribed = false
    /// True if no BEGIN was accepted on the open link.
    private var isNew = false
    private var busySince: Duration?
    /// The object of the last accepted BEGIN.
    private var openObject: UInt8 = 0
    /// The notifications of Progress since the last step that sent Data.
    private var heard: [[UInt8]] = []
    /// The failed rule without which the others cannot be checked.
    private var blocker: String?
    private var actions: [UpdateAction] = []
    package private(set) var deadline: Duration?

    /// Creates a check.
    ///
    /// - Parameters:
    ///   - bundle: a bundle that the device accepts, to check also the transfer of an image, which overwrites the slot that does not run;
    ///     nil: only the other rules.
    ///   - firstTag: the tag of the first request.
    package init(bundle: VerifiedBundle? = nil, firstTag: UInt8) {
        memory = CheckMemory(bundle: bundle)
        rules = CheckRule.all
        tag = firstTag
    }

    private var rule: CheckRule? { results.count < rules.count ? rules[results.count] : nil }

    package mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
        self.now = now
        switch event {
        case .started: connect()
        case .linkUp(let link): opened(link)
        case .linkDown(let error): closed(error)
        case .link(let event): handle(event)
        case .deadlinePassed: deadlinePassed()
        case .interrupted: end(.fail(UpdateError(.interrupted, "interrupted\(summary)")))
        case .encoded: break
        }
        defer { actions = [] }
        return actions
    }

    // MARK: Links

    private mutating func connect() {
        (phase, deadline) = (.connecting, nil)
        actions.append(.connect())
    }

    private mutating func opened(_ link: LinkProperties) {
        guard !link.hasOtherAddress else {
            return end(.fail(UpdateError(.noSuchDevice, "a device with another address answers")))
        }
        (memory.link, memory.next, memory.isIdle) = (link, 0, true)
        (isOpen, isNew, isSubscribed, hasConnected, attempts) = (true, true, false, true, 0)
        (heard, busySince) = ([], nil)
        // In the middle of a rule, its next step checks the state.
        guard step == 0, link.channels.contains(ProfileChannel.progress) else { return begin() }
        expect(.inspecting, .read(ProfileChannel.progress))
    }

    /// Ends the check if the device runs an image on trial, because CONFIRM would make it permanent, or serves another connection. A value
    /// that is not valid fails the rule about Progress later.
    private mutating func inspected(_ bytes: [UInt8]?) {
        deadline = nil
        switch bytes.flatMap({ try? ProgressValue(parsing: $0) })?.state {
        case .trial:
            stop(UpdateError(.inTrial, "the device runs an image on trial: confirm or discard it first"))
        case .idle, nil: begin()
        default: stop(UpdateError(.deviceBusy, "the device receives an update over another connection"))
        }
    }

    /// Ends the check. After a failed rule, the results are the answer, and the other rules are skipped.
    private mutating func stop(_ error: UpdateError) {
        guard results.contains(where: { $0.verdict == .failed }) else { return end(.fail(error)) }
        results += rules.dropFirst(results.count).map { $0.result(.skipped, error.context) }
        finish()
    }

    private mutating func closed(_ error: LinkError) {
        let wasOpen = isOpen
        (isOpen, deadline, memory.isIdle) = (false, nil, false)
        switch phase {
        case .ended: return
        case .closing: return connect()
        case .connecting:
            if !hasConnected, let code = error.withoutRetry {
                return end(.fail(UpdateError(code, error.detail, remedy: error.remedy)))
            }
        default:
            if error.code == .notPermitted { return refusedAccess(error) }
            if wasOpen { conclude(.failed, "the link was lost: \(error.detail)") }
        }
        if case .ended = phase { return }
        guard attempts < Self.pauses.count else {
            return end(.fail(UpdateError(.linkLost, "the device cannot be reached: \(error.detail)\(summary)")))
        }
        (phase, deadline) = (.pausing, now + Self.pauses[attempts])
        attempts += 1
    }

    /// Ends the check at a device that demands pairing, or whose bond is broken: this is no violation of a rule.
    private mutating func refusedAccess(_ error: LinkError) {
        end(.fail(UpdateError(.notPermitted, error.detail, remedy: error.remedy)))
    }

    private mutating func renewLink() {
        guard isOpen else { return connect() }
        (phase, deadline) = (.closing, nil)
        actions.append(.disconnect)
    }

    // MARK: Rules

    /// Starts the next rule, or continues a rule after a new link.
    private mutating func begin() {
        while let rule, step == 0, let reason = reasonToSkip(rule) { results.append(rule.result(.skipped, reason)) }
        guard let rule else { return finish() }
        if step == 0 {
            switch rule.start {
            case .unsubscribed where !isNew || isSubscribed, .newLink where !isNew, .idle where !memory.isIdle:
                return renewLink()
            default: break
            }
        }
        guard isOpen else { return connect() }
        guard isSubscribed || rule.start == .unsubscribed || rule.start == .any else { return subscribe() }
        run()
    }

    private func reasonToSkip(_ rule: CheckRule) -> String? {
        if let blocker, !rule.isFinal { return "needs the rule \(blocker), which failed" }
        return rule.skipped(memory)
    }

    private mutating func subscribe() {
        (phase, deadline) = (.subscribing(left: Self.required), now + Self.answerLimit)
        for channel in [ProfileChannel.control, ProfileChannel.progress] { actions.append(.link(.subscribe(channel))) }
    }

    private mutating func run() {
        guard let rule, step < rule.steps.count else { return conclude(.passed, memory.note) }
        switch rule.steps[step].command(memory) {
        case .ask(let bytes): ask(bytes)
        case .write(let bytes): expect(.writing(ProfileChannel.control), .write(bytes, ProfileChannel.control))
        case .writeData(let bytes):
            heard = []
            expect(.writing(ProfileChannel.data), .write(bytes, ProfileChannel.data))
        case .read(let channel): expect(.reading(channel), .read(channel))
        case .send(let values):
            heard = []
            actions.append(.link(.send(values, ProfileChannel.data)))
            complete(.done)
        case .listen(let time, let matches): (phase, deadline) = (.listening(matches), now + time)
        case .newLink:
            step += 1
            renewLink()
        case .nothing: complete(.done)
        }
    }

    private mutating func expect(_ phase: Phase, _ command: LinkCommand) {
        (self.phase, deadline) = (phase, now + Self.answerLimit)
        actions.append(.link(command))
    }

    private mutating func ask(_ bytes: [UInt8]) {
        tag &+= 1
        let limit = bytes.first == 1 || bytes.first == 3 ? Self.longAnswerLimit : Self.answerLimit
        (phase, deadline) = (.asking(bytes, tag: tag, isWritten: false, answer: nil), now + limit)
        actions.append(.link(.write(bytes.prefix(1) + [tag] + bytes.dropFirst(), ProfileChannel.control)))
    }

    private mutating func complete(_ outcome: CheckStep.Outcome) {
        guard let rule else { return }
        deadline = nil
        do throws(Deviation) {
            step += try rule.steps[step].check(&memory, outcome)
        } catch {
            return conclude(.failed, error.text)
        }
        run()
    }

    private mutating func conclude(_ verdict: CheckResult.Verdict, _ detail: String?) {
        guard let rule else { return }
        results.append(rule.result(verdict, detail))
        if verdict == .failed, rule.isNecessary { blocker = blocker ?? rule.name }
        (step, memory.note, deadline) = (0, nil, nil)
        guard self.rule != nil else { return finish() }
        guard isOpen else { return }
        if verdict == .failed { return renewLink() }
        begin()
    }

    private mutating func finish() {
        var device = DeviceDescription(
            state: memory.version.isEmpty ? .unknown : .idle,
            runningVersion: String(decoding: memory.version, as: UTF8.self))
        if let info = memory.firstInfo {
            (device.product, device.hardware) = (info.product, Int(info.hardware))
            (device.securityCounter, device.keys) = (info.securityCounter, info.keys)
        }
        var report = UpdateReport(outcome: .done, updateProtocol: .ota, device: device)
        report.checks = results
        end(.finish(report))
    }

    private mutating func end(_ action: UpdateAction) {
        (phase, deadline) = (.ended, nil)
        actions.append(action)
    }

    private var summary: String {
        let failed = results.filter { $0.verdict == .failed }.map(\.rule)
        return failed.isEmpty ? "" : "; these rules have failed before: \(failed.joined(separator: ", "))"
    }

    // MARK: Events of the link

    private mutating func handle(_ event: LinkEvent) {
        switch (event, phase) {
        case (.notified(let bytes, ProfileChannel.progress), _): notified(bytes)
        case (.notified(let bytes, ProfileChannel.control), _): answered(bytes)
        case (.refused(let error, _), _) where error.code == .notPermitted: refusedAccess(error)
        case (.value(let bytes, ProfileChannel.progress), .inspecting): inspected(bytes)
        case (.refused(_, ProfileChannel.progress), .inspecting): inspected(nil)
        case (.subscribed(let channel), .subscribing(var left)):
            left.remove(channel)
            phase = .subscribing(left: left)
            guard left.isEmpty else { return }
            (isSubscribed, deadline) = (true, nil)
            run()
        case (.refused(let error, let channel), .subscribing(let left)) where left.contains(channel):
            conclude(.failed, "the device refuses a subscription: \(error.detail)")
        case (.written(ProfileChannel.control), .asking(let bytes, let tag, _, let answer)):
            phase = .asking(bytes, tag: tag, isWritten: true, answer: answer)
            settle()
        case (.refused(let error, ProfileChannel.control), .asking): complete(.refused(error))
        case (.written(let channel), .writing(let expected)) where channel == expected: complete(.done)
        case (.refused(let error, let channel), .writing(let expected)) where channel == expected,
            (.refused(let error, let channel), .reading(let expected)) where channel == expected:
            complete(.refused(error))
        case (.value(let bytes, let channel), .reading(let expected)) where channel == expected: complete(.value(bytes))
        default: break
        }
    }

    private mutating func notified(_ bytes: [UInt8]) {
        if heard.count < Self.mostNotifications { heard.append(bytes) }
        guard case .listening(let matches) = phase, let value = try? ProgressValue(parsing: bytes), matches(value)
        else { return }
        phase = .listening { _ in false }
        deadline = now + Self.echoTime
    }

    private mutating func answered(_ bytes: [UInt8]) {
        guard case .asking(let request, let tag, let isWritten, nil) = phase, bytes.count >= 3,
            bytes[0] == 0x80 | request[0], bytes[1] == tag
        else {
            if memory.strayAnswers.count < Self.mostNotifications { memory.strayAnswers.append(bytes) }
            return
        }
        phase = .asking(request, tag: tag, isWritten: isWritten, answer: bytes)
        settle()
    }

    /// Completes a request after both its ATT response and its answer, because a host writes the next request only then.
    private mutating func settle() {
        guard case .asking(let request, _, true, let answer?) = phase else { return }
        deliver(answer, to: request)
    }

    private mutating func deliver(_ answer: [UInt8], to request: [UInt8]) {
        let (status, results) = (answer[2], Array(answer.dropFirst(3)))
        let hasPosition = status == 0 && (request[0] == 1 || request[0] == 2)
        if results.count != (hasPosition ? 10 : 0) { memory.malformedAnswers.append(answer) }
        if status == DeviceStatus.busy.rawValue {
            let since = busySince ?? now
            guard now - since >= Self.busyLimit else {
                (busySince, phase, deadline) = (since, .busy(request), now + .seconds(2))
                return
            }
            return stop(UpdateError(.deviceBusy, "the device answers busy for \(Self.busyLimit.components.seconds) s"))
        }
        busySince = nil
        note(request, status)
        // No rule expects ok for these: the device may run another image now. Only the rules that read are checked after this.
        if status == 0, request[0] == 4 || request[0] == 5 { blocker = blocker ?? rule?.name }
        complete(.answer(status, results: results))
    }

    /// Records the effect of a request on the device's state.
    private mutating func note(_ request: [UInt8], _ status: UInt8) {
        let isOK = status == 0
        switch request[0] {
        case 1 where isOK:
            (memory.isIdle, isNew) = (false, false)
            openObject = request.count > 1 ? request[1] : 0
        case 3 where !isOK && status != DeviceStatus.badState.rawValue && openObject == 1: memory.isIdle = true
        case 6 where isOK: memory.isIdle = true
        default: break
        }
    }

    private mutating func deadlinePassed() {
        deadline = nil
        switch phase {
        case .pausing: connect()
        case .subscribing: conclude(.failed, "the device does not answer a subscription in time")
        case .asking(let request, _, _, let answer?): deliver(answer, to: request)
        case .asking, .writing, .reading: complete(.silent)
        case .inspecting: inspected(nil)
        case .listening: complete(.progress(heard))
        case .busy(let request): ask(request)
        case .connecting, .closing, .ended: break
        }
    }
}
