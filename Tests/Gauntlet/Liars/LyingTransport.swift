import OTASimulator
import OTATransport
import OTAUpdate

/// The way to a lying device, in virtual time.
struct LyingTransport<Device: Liar>: Transport {
    private let liar: LiarBox<Device>
    private let time: VirtualTime

    init(_ liar: Device, _ time: VirtualTime) {
        self.liar = LiarBox(liar)
        self.time = time
    }

    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        try? await time.sleep(for: .milliseconds(200))
        guard let properties = liar.value.connect() else {
            try? await time.sleep(for: .seconds(10))
            throw LinkError(.timedOut, "nobody is there")
        }
        let link = LyingLink(properties, liar)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask { await link.carry(time) }
            let result = await body(link)
            link.close()
            group.cancelAll()
            return result
        }
    }
}

/// Under virtual time everything runs on one thread.
private final class LiarBox<Device: Liar>: @unchecked Sendable {
    var value: Device

    init(_ value: Device) { self.value = value }
}

private final class LyingLink<Device: Liar>: Link {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let out: AsyncStream<LinkEvent>.Continuation
    private let replies: AsyncStream<LiarReply>
    private let queue: AsyncStream<LiarReply>.Continuation
    private let liar: LiarBox<Device>

    init(_ properties: LinkProperties, _ liar: LiarBox<Device>) {
        self.properties = properties
        self.liar = liar
        (events, out) = AsyncStream.makeStream(of: LinkEvent.self)
        (replies, queue) = AsyncStream.makeStream(of: LiarReply.self)
    }

    func submit(_ command: LinkCommand) {
        for reply in liar.value.obey(command) { queue.yield(reply) }
    }

    func close() {
        out.yield(.lost(LinkError(.lost, "closed")))
        out.finish()
        queue.finish()
    }

    /// Tells the replies, one after the other, each after its delay.
    func carry(_ time: VirtualTime) async {
        for await reply in replies {
            if reply.delay > .zero { try? await time.sleep(for: reply.delay) }
            out.yield(reply.event)
            if case .lost = reply.event { return out.finish() }
        }
    }
}
