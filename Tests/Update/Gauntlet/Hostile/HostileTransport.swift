import OTAEngine
import OTASimulator
import OTAUpdate

/// A transport to a hostile device, in virtual time.
struct HostileTransport<Device: HostilePeer>: Transport {
    private let device: HostileBox<Device>
    private let time: VirtualTime

    init(_ device: Device, _ time: VirtualTime) {
        self.device = HostileBox(device)
        self.time = time
    }

    func runLink(opened: (any Link) -> Void, receive: @escaping LinkSink) async throws(LinkError) -> LinkError {
        try? await time.sleep(for: .milliseconds(200))
        guard let properties = device.value.connect() else {
            try? await time.sleep(for: .seconds(10))
            throw LinkError(.timedOut, "no device answers")
        }
        let (replies, queue) = AsyncStream.makeStream(of: HostileReply.self)
        let link = HostileLink(base: QueuedLink(properties), queue: queue, device: device)
        opened(link)
        return await withTaskGroup(of: Void.self) { group in
            group.addTask {
                await send(replies, to: receive)
                link.base.end(LinkError(.lost, "the hostile device broke the link"))
            }
            let end = await link.base.waitForEnd()
            group.cancelAll()
            return end
        }
    }

    /// Sends the replies in order, each after its delay, until a reply breaks the link.
    private func send(_ replies: AsyncStream<HostileReply>, to receive: (LinkEvent) -> Void) async {
        for await reply in replies {
            if reply.delay > .zero { try? await time.sleep(for: reply.delay) }
            guard !Task.isCancelled, let event = reply.event else { break }
            receive(event)
        }
    }
}

/// Under virtual time everything runs on one thread.
private final class HostileBox<Device: HostilePeer>: @unchecked Sendable {
    var value: Device

    init(_ value: Device) { self.value = value }
}

private struct HostileLink<Device: HostilePeer>: Link {
    let base: QueuedLink
    let queue: AsyncStream<HostileReply>.Continuation
    let device: HostileBox<Device>

    var properties: LinkProperties { base.properties }

    func submit(_ command: LinkCommand) {
        for reply in device.value.handle(command) { queue.yield(reply) }
    }

    func close() { base.close() }
}
