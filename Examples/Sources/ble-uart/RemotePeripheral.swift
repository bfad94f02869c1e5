import BlueZ
import ExampleSupport
import UARTProtocol

/// The central's end of the conversation with one peripheral. After a lost link, it connects again and continues the transfer.
actor RemotePeripheral {
    enum Event: Sendable {
        case session(CentralSession.Event)
        case reconnecting(reason: String, after: Duration)
    }

    enum Command: Sendable {
        case send(String)
        case toggle(Bool)
        case getImage
        case disconnect
    }

    private enum Input: Sendable {
        case value([UInt8])
        case command(Command)
        case deadline
    }

    private let client: BlueZClient
    private var request: ConnectionRequest
    private let report: @Sendable (Event) -> Void
    private let clock = Stopwatch()
    private var backoff = Backoff()
    private var hasGreeted = false
    /// The inputs of the current link. Nil: there is no link.
    private var link: AsyncStream<Input>.Continuation?
    /// The unfinished transfer of an earlier link.
    private var download: ImageDownload?

    init(
        _ client: BlueZClient, _ target: DeviceTarget, adapter: String?, _ report: @escaping @Sendable (Event) -> Void
    ) {
        self.client = client
        self.report = report
        request = ConnectionRequest(target, adapter: adapter, services: [UARTService.uuid])
    }

    /// Passes a command to the current link. Returns false if there is no link.
    @discardableResult
    func perform(_ command: Command) -> Bool {
        guard let link else { return false }
        link.yield(.command(command))
        return true
    }

    /// Connects, and connects again after each lost link. Returns after the command `disconnect`. Throws if the first attempt fails, or if
    /// no attempt of ``Backoff`` is left.
    func run() async throws {
        while true {
            do {
                return try await client.withConnection(request) { try await talk(over: $0) }
            } catch let error as BlueZError where error.code != .cancelled && error.code != .busUnavailable {
                try await wait(after: error, reason: error.context)
            } catch let error as ChannelError { try await wait(after: error, reason: "\(error)") }
        }
    }

    private func wait(after error: any Error, reason: String) async throws {
        guard hasGreeted, let wait = backoff.next() else { throw error as? BlueZError ?? Failure(reason) }
        report(.reconnecting(reason: reason, after: wait))
        try await Task.sleep(for: wait)
    }

    private func talk(over connection: DeviceConnection) async throws {
        // The next links are to this device, even if another device has the same name.
        request.target = .address(connection.device.address)
        let rx = try connection.characteristic(UARTService.rx, of: UARTService.uuid)
        let tx = try connection.characteristic(UARTService.tx, of: UARTService.uuid)
        let notifications = try await connection.subscribe(to: tx)
        let (inputs, feed) = AsyncStream.makeStream(of: Input.self)
        let listener = Task {
            for await value in notifications { feed.yield(.value(value)) }
            feed.finish()
        }
        var timer: Task<Void, Never>?
        var session = CentralSession(
            valueLength: UARTService.valueLength(atMost: connection.maximumValueLength), continuing: download)
        link = feed
        defer {
            link = nil
            download = session.download
            listener.cancel()
            timer?.cancel()
        }
        feed.yield(.deadline)  // sends the greeting
        for await input in inputs {
            switch input {
            case .value(let value):
                for event in try session.receive(value, at: clock.now) { try show(event) }
            case .command(.disconnect): return
            case .command(.send(let text)): session.send(text)
            case .command(.toggle(let on)): session.request(toggle: on)
            case .command(.getImage): session.requestImage()
            case .deadline: break
            }
            let values = try session.output(at: clock.now)
            if !values.isEmpty { try await connection.send(values, to: rx) }
            timer?.cancel()
            timer = session.deadline.map { clock.call(at: $0) { feed.yield(.deadline) } }
        }
        throw try await connection.waitForEnd().error
    }

    private func show(_ event: CentralSession.Event) throws {
        if event == .ready {
            hasGreeted = true
            backoff.reset()
        }
        // A device without this protocol, or with another version of it.
        if !hasGreeted, case .refused(let refusal) = event { throw Failure("\(refusal)") }
        report(.session(event))
    }
}
