import OTASimulator
import OTATransport
import OTAUpdate

/// A transport to a hostile device, in virtual time.
struct HostileTransport<Device: HostilePeer>: Transport {
    private let device: HostileBox<Device>
    private let time: VirtualTime

    init(_ device: Device, _ time: VirtualTime) {
        self.device = HostileBox(device)
        self.time = time
    }

    func withLink<Result: Sendable>(_ body: (any Link) async -> Result) async throws(LinkError) -> Result {
        try? await time.sleep(for: .milliseconds(200))
        guard let properties = device.value.connect() else {
            try? await time.sleep(for: .seconds(10))
            throw LinkError(.timedOut, "no device answers")
        }
        let link = HostileLink(properties, device)
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
private final class HostileBox<Device: HostilePeer>: @unchecked Sendable {
    var value: Device

    init(_ value: Device) { self.value = value }
}

private final class HostileLink<Device: HostilePeer>: Link {
    let properties: LinkProperties
    let events: AsyncStream<LinkEvent>
    private let out: AsyncStream<LinkEvent>.Continuation
    private let replies: AsyncStream<HostileReply>
    private let queue: AsyncStream<HostileReply>.Continuation
    private let device: HostileBox<Device>

    init(_ properties: LinkProperties, _ device: HostileBox<Device>) {
        self.properties = properties
        self.device = device
        (events, out) = AsyncStream.makeStream(of: LinkEvent.self)
        (replies, queue) = AsyncStream.makeStream(of: HostileReply.self)
    }

    func submit(_ command: LinkCommand) {
        for reply in device.value.handle(command) { queue.yield(reply) }
    }

    func close() {
        out.yield(.lost(LinkError(.lost, "closed")))
        out.finish()
        queue.finish()
    }

    /// Sends the replies in order, each after its delay.
    func carry(_ time: VirtualTime) async {
        for await reply in replies {
            if reply.delay > .zero { try? await time.sleep(for: reply.delay) }
            out.yield(reply.event)
            if case .lost = reply.event { return out.finish() }
        }
    }
}
