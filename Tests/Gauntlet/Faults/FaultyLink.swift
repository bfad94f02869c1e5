import OTASimulator
import OTATransport
import OTAUpdate

/// A link that applies a world's faults to its events and commands.
final class FaultyLink: Link {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let out: AsyncStream<LinkEvent>.Continuation
    private let base: any Link
    private let agent: FaultAgent

    init(_ base: any Link, _ agent: FaultAgent) {
        self.base = base
        self.agent = agent
        var properties = base.properties
        agent.connected(&properties)
        self.properties = properties
        (events, out) = AsyncStream.makeStream(of: LinkEvent.self)
    }

    func submit(_ command: LinkCommand) {
        if let command = agent.alter(command) { base.submit(command) }
    }

    func close() { base.close() }

    /// Forwards the link's events until the link ends.
    func carry(_ time: VirtualTime) async {
        for await event in base.events {
            let (events, stall) = agent.alter(event)
            if stall > .zero { try? await time.sleep(for: stall) }
            for event in events { out.yield(event) }
        }
        out.finish()
    }
}
