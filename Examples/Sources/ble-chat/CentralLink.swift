import BlueZ
import ChatProtocol
import ExampleSupport

/// The link of a central, from the attempt to connect to the end of the link. It reports its progress as events of the messenger.
struct CentralLink {
    private let task: Task<Void, Never>
    private let outgoing: AsyncStream<[UInt8]>.Continuation
    /// Whether the link can still be cancelled without a loss of values.
    private var isConnecting = true

    init(
        _ client: BlueZClient, _ request: ConnectionRequest, isSecure: Bool, _ id: LinkID,
        _ report: @escaping @Sendable (Messenger.Event) -> Void
    ) {
        let (values, outgoing) = AsyncStream.makeStream(of: [UInt8].self)
        self.outgoing = outgoing
        task = Task {
            do {
                try await client.withConnection(request) { connection in
                    if isSecure { try await connection.pair(authenticated: true) }
                    let characteristic = try connection.characteristic(
                        ChatService.characteristic, of: ChatService.uuid)
                    let notifications = try await connection.subscribe(to: characteristic)
                    let length = ChatService.maximumFrameLength(mtu: connection.mtu)
                    report(.linked(id, with: connection.device.address, frameLength: length))
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask {
                            for await value in notifications { report(.received(id, value)) }
                            throw try await connection.waitForEnd().error
                        }
                        group.addTask {
                            for await value in values { try await connection.write(value, to: characteristic) }
                        }
                        try await group.next()
                        group.cancelAll()
                    }
                }
                report(.unlinked(id, "this peer closed the link"))
            } catch {
                let refusal = (error as? BlueZError).flatMap { ChatError($0) }
                report(.unlinked(id, refusal?.description ?? sentence(error)))
            }
        }
    }

    mutating func send(_ values: [[UInt8]]) {
        isConnecting = false
        for value in values { outgoing.yield(value) }
    }

    /// Ends the link after the values that are queued, or the attempt to connect. A stranger may not answer a write, so the time is limited.
    func disconnect() {
        outgoing.finish()
        Task { [task, isConnecting] in
            if !isConnecting { try await Task.sleep(for: .seconds(5)) }
            task.cancel()
        }
    }

    func waitForEnd() async { await task.value }
}
