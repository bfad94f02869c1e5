import OTAUpdate
import Testing

@Suite("Choice of the protocol when the link is up") struct ChoosingSessionTests {
    /// Connects and reports each event that it receives.
    private struct Named: UpdateSession {
        let name: String
        var ends = false
        var deadline: Duration? { .seconds(name.utf8.count) }

        mutating func handle(_ event: UpdateEvent, at now: Duration) -> [UpdateAction] {
            if case .started = event, ends { return [.disconnect, .fail(UpdateError(.unsupportedDevice, name))] }
            if case .started = event { return [.report(.phase(.connect)), .connect] }
            return [.report(.note("\(name): \(event) at \(now.components.seconds)"))]
        }
    }

    private static let link = LinkProperties(channels: [], maximumValueLength: 20)
    private static let lost = LinkError(.timedOut, "")

    private static func session(_ chosen: any UpdateSession) -> ChoosingSession {
        ChoosingSession(until: Named(name: "first")) { link throws(UpdateError) in
            #expect(link == Self.link)
            return chosen
        }
    }

    private static func told(_ actions: [UpdateAction]) -> [String] {
        actions.map { if case .report(.note(let text)) = $0 { text } else { "\($0)" } }
    }

    @Test("the first session handles events until a link is up")
    func untilALinkIsUpItIsTheFirst() {
        var session = Self.session(Named(name: "second"))
        #expect(session.handle(.started, at: .zero) == [.report(.phase(.connect)), .connect])
        #expect(
            Self.told(session.handle(.linkDown(Self.lost), at: .seconds(1))) == [
                "first: \(UpdateEvent.linkDown(Self.lost)) at 1"
            ])
        #expect(session.deadline == .seconds(5))
    }

    @Test("the chosen session handles all events after the link is up, and the choice is made once")
    func fromThenOnItIsTheChosen() {
        var session = Self.session(Named(name: "second"))
        _ = session.handle(.started, at: .zero)
        // The chosen session's connect phase and connect action are dropped, because the link is up.
        #expect(
            Self.told(session.handle(.linkUp(Self.link), at: .seconds(2))) == [
                "second: \(UpdateEvent.linkUp(Self.link)) at 2"
            ])
        #expect(session.deadline == .seconds(6))
        #expect(Self.told(session.handle(.deadlinePassed, at: .seconds(3))) == ["second: deadlinePassed at 3"])
        // A second link does not cause a second choice.
        #expect(
            Self.told(session.handle(.linkUp(Self.link), at: .seconds(4))) == [
                "second: \(UpdateEvent.linkUp(Self.link)) at 4"
            ])
    }

    @Test("a chosen session may end at once")
    func aChosenOneMayEndAtOnce() {
        var session = Self.session(Named(name: "second", ends: true))
        _ = session.handle(.started, at: .zero)
        #expect(
            session.handle(.linkUp(Self.link), at: .zero) == [.disconnect, .fail(UpdateError(.unsupportedDevice, ""))])
    }

    @Test("the session disconnects and fails if no protocol fits the link")
    func noneThatFitsIsTheEnd() {
        let refusal = UpdateError(.wrongImageFormat, "no")
        var session = ChoosingSession(until: Named(name: "first")) { _ throws(UpdateError) in throw refusal }
        _ = session.handle(.started, at: .zero)
        #expect(session.handle(.linkUp(Self.link), at: .zero) == [.disconnect, .fail(refusal)])
        #expect(session.deadline == nil)
        #expect(session.handle(.linkDown(Self.lost), at: .zero) == [])
    }
}
