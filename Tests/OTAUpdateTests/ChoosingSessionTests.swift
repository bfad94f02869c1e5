import OTAUpdate
import Testing

@Suite struct ChoosingSessionTests {
    /// Connects, and writes down what it is told.
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

    @Test func untilALinkIsUpItIsTheFirst() {
        var session = Self.session(Named(name: "second"))
        #expect(session.handle(.started, at: .zero) == [.report(.phase(.connect)), .connect])
        #expect(
            Self.told(session.handle(.linkDown(Self.lost), at: .seconds(1))) == [
                "first: \(UpdateEvent.linkDown(Self.lost)) at 1"
            ])
        #expect(session.deadline == .seconds(5))
    }

    @Test func fromThenOnItIsTheChosen() {
        var session = Self.session(Named(name: "second"))
        _ = session.handle(.started, at: .zero)
        // Neither a second phase nor a second connect.
        #expect(
            Self.told(session.handle(.linkUp(Self.link), at: .seconds(2))) == [
                "second: \(UpdateEvent.linkUp(Self.link)) at 2"
            ])
        #expect(session.deadline == .seconds(6))
        #expect(Self.told(session.handle(.deadlinePassed, at: .seconds(3))) == ["second: deadlinePassed at 3"])
        // It is chosen once.
        #expect(
            Self.told(session.handle(.linkUp(Self.link), at: .seconds(4))) == [
                "second: \(UpdateEvent.linkUp(Self.link)) at 4"
            ])
    }

    @Test func aChosenOneMayEndAtOnce() {
        var session = Self.session(Named(name: "second", ends: true))
        _ = session.handle(.started, at: .zero)
        #expect(
            session.handle(.linkUp(Self.link), at: .zero) == [.disconnect, .fail(UpdateError(.unsupportedDevice, ""))])
    }

    @Test func noneThatFitsIsTheEnd() {
        let refusal = UpdateError(.wrongImageFormat, "no")
        var session = ChoosingSession(until: Named(name: "first")) { _ throws(UpdateError) in throw refusal }
        _ = session.handle(.started, at: .zero)
        #expect(session.handle(.linkUp(Self.link), at: .zero) == [.disconnect, .fail(refusal)])
        #expect(session.deadline == nil)
        #expect(session.handle(.linkDown(Self.lost), at: .zero) == [])
    }
}
