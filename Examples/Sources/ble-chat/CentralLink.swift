import BlueZ
import ChatProtocol
import ExampleSupport

/// The link of a central, from the attempt to connect to the end of the link. It reports its progress as events of the messenger.
struct CentralLink {
    private let task: Task<Void, Never>
    private let outgoing: AsyncStream<Frame>.Continuation
    /// Whether the messenger has got the event `linked`.
    var isLinked = false

    init(
        _ client: BlueZClient, _ request: ConnectionRequest, isSecure: Bool, after delay: Duration,
        _ report: @escaping @Sendable (Messenger.Event) -> Void
    ) {
        let (frames, outgoing) = AsyncStream.makeStream(of: Frame.self)
        self.outgoing = outgoing
        task = Task {
            do {
                try await Task.sleep(for: delay)
                try await client.withConnection(request) { connection in
                    if isSecure { try await connection.pair(authenticated: true) }
                    let characteristic = try connection.characteristic(
                        ChatService.characteristic, of: ChatService.uuid)
                    let notifications = try await connection.subscribe(to: characteristic)
                    report(
                        .linked(
                            asCentral: true, frameLength: ChatService.maximumFrameLength(mtu: connection.mtu)))
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for await value in notifications { report(.received(value)) }
                            throw try await connection.waitForEnd().error
                        }
                        group.addTask {
                            for await frame in frames { try await connection.write(frame.bytes, to: characteristic) }
                        }
                        try await group.next()
                        group.cancelAll()
                    }
                }
                report(.unlinked("this peer closed the link"))
            } catch { report(.unlinked(Self.reason(error))) }
        }
    }

    private static func reason(_ error: any Error) -> String {
        guard let error = error as? BlueZError else { return "\(error)" }
        return ChatError(error)?.description ?? Failure(error).description
    }

    func send(_ frames: [Frame]) {
        for frame in frames { outgoing.yield(frame) }
    }

    /// Ends the link after the frames that are queued, or the attempt to connect.
    func disconnect() {
        if isLinked { outgoing.finish() } else { task.cancel() }
    }

    func waitForEnd() async { await task.value }
}
