import OTAUpdate
import Testing

@Suite("Session over several links") struct UpdateSessionTests {
    @Test("the conversation is created at the first link, once, and has the number from the seed")
    func choice() throws {
        var random = SplitMix64(seed: 7)
        let number = UInt8.random(in: 0...255, using: &random)
        var session = UpdateSession(seed: 7) { link throws(UpdateError) in
            #expect(link == Rig.link)
            return Script()
        }
        #expect(session.handle(.started, at: .zero) == [.report(.phase(.connect)), .connect()])
        #expect(session.conversation == nil)
        #expect(
            session.handle(.linkUp(Rig.link), at: .zero) == [.stage(.asking), .report(.note("begin \(number &+ 1)"))])
        #expect(session.handle(.linkDown(Rig.lost), at: .zero) == [.report(.linkLost(Rig.lost))])
        let again = try #require(session.deadline)
        #expect(session.handle(.deadlinePassed, at: again) == [.connect()])
        #expect(
            session.handle(.linkUp(Rig.link), at: again)
                == [.report(.reconnected), .report(.note("begin \(number &+ 2)"))])
    }

    @Test("a refused device ends the session, and later events have no effect")
    func refusedDevice() {
        let refusal = UpdateError(.wrongImageFormat, "no")
        var session = UpdateSession(seed: 1) { _ throws(UpdateError) in throw refusal }
        _ = session.handle(.started, at: .zero)
        #expect(session.handle(.linkUp(Rig.link), at: .zero) == [.disconnect, .fail(refusal)])
        #expect(session.deadline == nil)
        #expect(session.handle(.linkDown(Rig.lost), at: .zero) == [])
    }

    @Test("an attempt to connect ends after 35 s, and the fourth failed attempt ends the session")
    func attempts() throws {
        var rig = Rig(Script())
        var starts: [Duration] = []
        while rig.error == nil {
            starts.append(rig.now)
            #expect(try #require(rig.session.deadline) == rig.now + .seconds(35))
            rig.waitForDeadline()
            if rig.error == nil { rig.waitForDeadline() }
        }
        #expect(starts.count == 4 && rig.error == .noSuchDevice)
    }

    @Test(
        "a device that was not found ends the session at once, until a device has answered", arguments: [false, true])
    func notFound(isReached: Bool) {
        let missing = LinkError(.noSuchDevice, "none")
        var first = Rig(Script(isDeviceReached: true))
        first.tell(.linkDown(missing))
        #expect(first.error == .noSuchDevice)
        var later = Rig(Script(isDeviceReached: isReached))
        later.tell(.linkUp(Rig.link))
        later.tell(.linkDown(missing))
        #expect(later.error == (isReached ? nil : .noSuchDevice))
    }

    @Test("until the device has answered, a failed attempt is reported as a failed connection and not as a lost link")
    func firstConnection() throws {
        var rig = Rig(Script([.reconnect(.afterLoss(Rig.lost))], isDeviceReached: false))
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == [.report(.connectionFailed(Rig.lost)), .stage(.searching, after: Rig.lost)])
        rig.waitForDeadline()
        rig.tell(.linkUp(Rig.link))
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == [.report(.connectionFailed(Rig.lost)), .stage(.searching, after: Rig.lost)])
        rig.waitForDeadline()
        rig.tell(.linkUp(Rig.link))
        #expect(!rig.actions.contains(.report(.reconnected)))
    }

    @Test("a session enters a stage once, and enters each later stage that its conversation enters")
    func stages() {
        var rig = Rig(Script([.enter(.sending), .enter(.sending), .enter(.marked), .enter(.sending), .restarts]))
        rig.tell(.linkUp(Rig.link))
        var stages: [UpdateAction] = []
        for _ in 0..<5 {
            rig.tell(.link(.subscribed(Rig.channel)))
            stages += rig.actions.filter { if case .stage = $0 { true } else { false } }
        }
        #expect(stages == [.stage(.sending), .stage(.marked), .stage(.sending), .stage(.restarting)])
        rig.tell(.linkDown(Rig.lost))
        rig.waitForDeadline()
        rig.tell(.linkUp(Rig.link))
        #expect(rig.actions.first == .report(.reconnected), "the restart ends, although no phase was reported")
    }

    @Test("a closing link is not heard, and its loss is reported with the reason of the conversation")
    func closingLink() {
        let reason = LinkError(.refused, "why")
        var rig = Rig(Script([.reconnect(.afterLoss(reason)), .failTwice]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        #expect(rig.actions.last == .disconnect && rig.session.deadline == .seconds(10))
        rig.tell(.link(.subscribed(Rig.channel)))
        #expect(rig.actions == [])
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == [.report(.linkLost(reason))])
    }

    @Test("a link that does not close within 10 s counts as closed")
    func linkThatStaysOpen() {
        var rig = Rig(Script([.reconnect(.afterLoss(Rig.lost))]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        rig.waitForDeadline()
        #expect(rig.now == .seconds(10) && rig.actions == [.report(.linkLost(Rig.lost))])
    }

    @Test("a clean new link is neither a loss nor a failed attempt")
    func cleanLink() {
        var rig = Rig(Script(Array(repeating: .reconnect(.clean), count: 10)))
        for _ in 0..<10 {
            rig.tell(.linkUp(Rig.link))
            rig.tell(.link(.subscribed(Rig.channel)))
            rig.tell(.linkDown(Rig.lost))
            #expect(rig.actions == [] && rig.session.deadline == rig.now + RetryPolicy.shortestWait)
            rig.waitForDeadline()
            #expect(rig.actions == [.connect()])
        }
        #expect(rig.disconnects == 0)
    }

    @Test("losses without progress end the session, and progress resets their number", arguments: [false, true])
    func losses(hasProgress: Bool) {
        var rig = Rig(Script(Array(repeating: hasProgress ? .progress : .nothing, count: 20)))
        for _ in 0..<20 where rig.error == nil {
            rig.tell(.linkUp(Rig.link))
            rig.tell(.link(.subscribed(Rig.channel)))
            rig.tell(.linkDown(Rig.lost))
            if rig.error == nil { rig.waitForDeadline() }
        }
        #expect(rig.error == (hasProgress ? nil : .linkLost) && rig.disconnects == (hasProgress ? 20 : 4))
    }

    @Test(
        "after three retries, the error code is of the last failure",
        arguments: [
            (LinkError.Code.timedOut, UpdateError.Code.noAnswer), (.refused, .attributeRefused), (.inUse, .deviceInUse),
            (.lost, .linkLost),
        ], [false, true])
    func lastFailure(_ codes: (LinkError.Code, UpdateError.Code), hasAnswered: Bool) {
        let steps = [Script.Step](repeating: .reconnect(.afterLoss(LinkError(codes.0, "why"))), count: 10)
        var rig = Rig(Script(steps, isDeviceReached: hasAnswered))
        var links = 0
        while rig.error == nil, links < 10 {
            links += 1
            rig.tell(.linkUp(Rig.link))
            rig.tell(.link(.subscribed(Rig.channel)))
            rig.tell(.linkDown(Rig.lost))
            if rig.error == nil { rig.waitForDeadline() }
        }
        #expect(rig.error == codes.1 && links == 4)
        guard case .fail(let error)? = rig.actions.last else { return }
        #expect(error.isSilent == !hasAnswered)
    }

    @Test("a device that returns but refuses each request ends the session with attribute-refused")
    func refusalsAfterRestart() {
        let refusal = Script.Step.reconnect(.afterLoss(LinkError(.refused, "why")))
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: true)] + Array(repeating: refusal, count: 100)))
        while rig.error == nil, rig.now < .seconds(300) {
            rig.tell(.linkUp(Rig.link))
            rig.tell(.link(.subscribed(Rig.channel)))
            rig.tell(.linkDown(Rig.lost))
            if rig.error == nil { rig.waitForDeadline() }
        }
        #expect(rig.error == .attributeRefused && rig.now >= .seconds(60))
    }

    @Test("a device that returns without its bond ends the session with not-permitted")
    func bondLostAtRestart() {
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: true)]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        rig.tell(.linkDown(Rig.lost))
        while rig.error == nil, rig.now < .seconds(300) {
            rig.waitForDeadline()
            rig.tell(.linkDown(LinkError(.lost, "no encryption", remedy: .removeBond)))
        }
        guard case .fail(let error)? = rig.actions.last else { return }
        #expect(error.code == .notPermitted && error.remedy == .removeBond && error.context == "no encryption")
        #expect(rig.now >= .seconds(60))
    }

    @Test("a restarting device is looked for until the restart window ends", arguments: [false, true])
    func restart(reportsPhase: Bool) {
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: reportsPhase)]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == (reportsPhase ? [.stage(.restarting), .report(.phase(.restart))] : []))
        while rig.error == nil {
            rig.waitForDeadline()
            rig.tell(.linkDown(LinkError(.timedOut, "nobody")))
        }
        #expect(rig.error == .didNotReturn && rig.disconnects == 0)
        #expect(rig.now >= .seconds(60) && rig.now < .seconds(64))
    }

    // Over UDP and serial, a link opens also without a device.
    @Test(
        "a restart over UDP is reported once, its silence is not a lost link, and a later loss is one",
        arguments: [0, 1, 5])
    func aSilentRestart(silentLinks: Int) {
        let silence = ConversationState.Reconnection.afterLoss(LinkError(.timedOut, "no answer"))
        let steps = Array(repeating: Script.Step.reconnect(silence), count: silentLinks)
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: true)] + steps))
        rig.tell(.linkUp(Rig.datagrams))
        rig.tell(.link(.subscribed(Rig.channel)))
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == [.stage(.restarting), .report(.phase(.restart))])
        for _ in 0..<silentLinks {
            rig.waitForDeadline()
            rig.tell(.linkUp(Rig.datagrams))
            #expect(!rig.actions.contains(.report(.reconnected)))
            rig.tell(.link(.subscribed(Rig.channel)))
            rig.tell(.linkDown(Rig.lost))
            #expect(rig.actions == [])
        }
        rig.waitForDeadline()
        rig.tell(.linkUp(Rig.datagrams))
        rig.tell(.link(.notified([], Rig.channel)))
        #expect(rig.actions == [.report(.reconnected)] && rig.disconnects == 0)
        rig.tell(.linkDown(Rig.lost))
        #expect(rig.actions == [.report(.linkLost(Rig.lost))] && rig.disconnects == 1)
    }

    // The device answers before its restart, and then does not answer for some time.
    @Test("a device that answers before its restart is reported as reconnected once")
    func anAnswerBeforeTheRestart() {
        let again = Script.Step.reconnect(.afterRestart(reportsPhase: false))
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: true), again]))
        var reports: [UpdateAction] = []
        for _ in 0..<3 {
            rig.tell(.linkUp(Rig.datagrams))
            rig.tell(.link(.notified([], Rig.channel)))
            reports += rig.actions.filter { $0 == .report(.reconnected) }
            rig.tell(.linkDown(Rig.lost))
            if rig.error == nil { rig.waitForDeadline() }
        }
        #expect(reports.count == 1 && rig.disconnects == 1)
    }

    @Test("a loss at the end of the restart window extends it by one restart")
    func lateLoss() {
        var rig = Rig(Script([.restart(.seconds(60), reportsPhase: false)]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        rig.tell(.linkDown(Rig.lost))
        while rig.now < .seconds(58) {
            rig.waitForDeadline()
            if rig.now < .seconds(58) { rig.tell(.linkDown(LinkError(.timedOut, "nobody"))) }
        }
        rig.tell(.linkUp(Rig.link))
        rig.tell(.linkDown(Rig.lost))
        let end = rig.now + Script.restart
        while rig.error == nil {
            rig.waitForDeadline()
            rig.tell(.linkDown(LinkError(.timedOut, "nobody")))
        }
        #expect(rig.error == .didNotReturn && rig.now >= end && rig.now < end + .seconds(4))
    }

    @Test("a push that exhausts its budget ends")
    func budget() {
        var rig = Rig(Script(Array(repeating: .rewind, count: ProgressBudget.mostRewinds)))
        rig.tell(.linkUp(Rig.link))
        for index in 1...ProgressBudget.mostRewinds {
            rig.tell(.link(.subscribed(Rig.channel)))
            #expect((rig.error == .noProgress) == (index == ProgressBudget.mostRewinds))
        }
    }

    @Test("only the first decision of a call counts, and an interrupt ends each state")
    func endings() {
        var rig = Rig(Script([.failTwice]))
        rig.tell(.linkUp(Rig.link))
        rig.tell(.link(.subscribed(Rig.channel)))
        #expect(rig.actions == [.disconnect, .fail(UpdateError(.deviceBusy, ""))])
        var connecting = Rig(Script())
        connecting.tell(.interrupted)
        #expect(connecting.error == .interrupted && connecting.session.deadline == nil)
    }
}

/// A session, its time and its last actions.
private struct Rig {
    static let channel = Channel(service: 1, characteristic: 2)
    static let link = LinkProperties(channels: [channel], maximumValueLength: 20)
    /// A link over UDP or a serial port.
    static let datagrams = LinkProperties(
        channels: [channel], maximumValueLength: 20, preservesMessageBoundaries: true)
    static let lost = LinkError(.lost, "gone")

    var session: UpdateSession
    var now = Duration.zero
    private(set) var actions: [UpdateAction] = []

    init(_ script: Script) {
        session = UpdateSession(script, seed: 1)
        tell(.started)
    }

    var error: UpdateError.Code? {
        if case .fail(let error)? = actions.last { error.code } else { nil }
    }
    var disconnects: Int? { session.conversation?.shared.ledger?.statistics.disconnects }

    mutating func tell(_ event: UpdateEvent) { actions = session.handle(event, at: now) }

    mutating func waitForDeadline() {
        now = max(now, session.deadline ?? now)
        tell(.deadlinePassed)
    }
}

/// A conversation that performs one step for each event of a link.
private struct Script: Conversation {
    enum Step {
        case nothing, progress, rewind, failTwice
        /// Enters a stage, without a report of a phase.
        case enter(UpdateStage)
        case reconnect(ConversationState.Reconnection)
        case restart(Duration, reportsPhase: Bool)
        /// Enters the stage `restarting`, and reconnects after the restart.
        case restarts
    }
    static let updateProtocol = UpdateProtocol("stub", title: "Stub")
    static let restart = Duration.seconds(30)

    var shared = ConversationState(pushOf: 1000)
    let isDeviceReached: Bool
    private var steps: [Step]

    init(_ steps: [Step] = [], isDeviceReached: Bool = true) {
        self.steps = steps.reversed()
        self.isDeviceReached = isDeviceReached
    }

    var restartTime: Duration { Self.restart }
    var deadline: Duration? { shared.now + .seconds(1) }

    mutating func begin() { report(.note("begin \(shared.nextNumber())")) }

    mutating func handle(_ event: LinkEvent) {
        switch steps.popLast() {
        case .progress: progressed()
        case .enter(let stage): enter(stage)
        case .rewind: shared.ledger?.budget.rewound(losesBytes: false)
        case .failTwice:
            fail(UpdateError(.deviceBusy, "first"))
            fail(UpdateError(.flashFailed, "second"))
        case .reconnect(let reconnection): reconnect(reconnection)
        case .restart(let window, let reportsPhase):
            shared.restartDeadline = shared.now + window
            reconnect(.afterRestart(reportsPhase: reportsPhase))
        case .restarts:
            shared.restartDeadline = shared.now + .seconds(60)
            enter(.restarting)
            reconnect(.afterRestart(reportsPhase: false))
        case .nothing, nil: break
        }
    }

    mutating func deadlinePassed() {}
    mutating func linkEnded() {}
}
