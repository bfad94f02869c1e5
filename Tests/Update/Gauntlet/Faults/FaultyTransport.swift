import OTAEngine
import OTASimulator
import OTAUpdate

/// A transport to a virtual device that applies a world's faults. Without faults it changes nothing.
struct FaultyTransport: Transport {
    private let base: any Transport
    private let time: VirtualTime
    private let agent: FaultAgent?

    init(_ base: any Transport, _ time: VirtualTime, _ agent: FaultAgent?) {
        self.base = base
        self.time = time
        self.agent = agent
    }

    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        try await runLink(to: .device, opened: opened, receive: receive)
    }

    func runLink(
        to target: LinkTarget, opened: (any Link) -> Void, receive: @escaping LinkSink
    ) async throws(LinkError) -> LinkError {
        guard let agent else { return try await base.runLink(to: target, opened: opened, receive: receive) }
        if agent.missesAttempt() {
            try? await time.sleep(for: .seconds(10))
            throw LinkError(.timedOut, "no device answers at this address")
        }
        agent.revertTrial()
        let (events, feed) = AsyncStream.makeStream(of: LinkEvent.self)
        async let forwarding: Void = forward(events, to: receive, agent)
        let end = try await base.runLink(to: target) {
            opened(FaultyLink($0, agent))
        } receive: {
            feed.yield($0)
        }
        feed.finish()
        await forwarding
        return end
    }

    /// Forwards the events with the faults. This is a separate task, because it waits and calls the device.
    private func forward(
        _ events: AsyncStream<LinkEvent>, to receive: (LinkEvent) -> Void, _ agent: FaultAgent
    ) async {
        for await event in events {
            let (events, stall) = agent.alter(event)
            if stall > .zero { try? await time.sleep(for: stall) }
            for event in events { receive(event) }
        }
    }
}

/// A link that applies a world's faults to its properties and commands.
private struct FaultyLink: Link {
    let properties: LinkProperties
    private let base: any Link
    private let agent: FaultAgent

    init(_ base: any Link, _ agent: FaultAgent) {
        self.base = base
        self.agent = agent
        var properties = base.properties
        agent.connected(&properties)
        self.properties = properties
    }

    func submit(_ command: LinkCommand) {
        if let command = agent.alter(command) { base.submit(command) }
    }

    func close() { base.close() }
}
