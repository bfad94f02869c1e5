import BlueZ
import ExampleSupport
import UARTProtocol

/// The central's end of the conversation with one peripheral. After a lost link, it connects again and continues the conversation.
actor RemotePeripheral {
    private enum Input: Sendable {
        case value([UInt8])
        /// A command has changed the session, or its deadline has come.
        case wake
    }

    private let client: BlueZClient
    private var request: ConnectionRequest
    private let report: @Sendable (CentralScreen.Event) -> Void
    private let clock = Stopwatch()
    private var backoff = Backoff()
    private var hasGreeted = false
    /// The time of the greeting on the current link. Nil: no greeting.
    private var greeted: Duration?
    private var session = CentralSession(conversation: .random(in: 0...UInt64.max))
    /// The inputs of the current link. Nil: there is no link.
    private var link: AsyncStream<Input>.Continuation?
    /// The time at which the conversation ends even if messages are not confirmed. Nil: the user has not ended the conversation.
    private var end: Duration?

    init(
        _ client: BlueZClient, _ target: DeviceTarget, adapter: String?,
        _ report: @escaping @Sendable (CentralScreen.Event) -> Void
    ) {
        self.client = client
        self.report = report
        request = ConnectionRequest(target, adapter: adapter, services: [UARTService.uuid])
    }

    /// The number of texts and requests that the peripheral has not confirmed.
    var undelivered: Int { session.undelivered }

    /// Performs an action, now or over the next link. Returns false if this is not possible: too many messages wait, or there is no link that
    /// `disconnect` could end.
    @discardableResult
    func perform(_ action: CentralScreen.Action) -> Bool {
        defer { link?.yield(.wake) }
        switch action {
        case .send(let text): return session.send(text)
        case .toggle(let on): return session.request(toggle: on)
        case .getImage: session.requestImage(at: clock.now)
        case .disconnect:
            end = clock.now + .seconds(3)
            return link != nil
        case .connect, .quit: return false
        }
        return true
    }

    /// Connects, and connects again after each lost link. Returns after the action `disconnect`. Throws if the first link could not be
    /// made, or if no attempt of ``Backoff`` is left.
    func run() async throws {
        while true {
            do {
                return try await client.withConnection(request) { try await talk(over: $0) }
            } catch  where end != nil && !Task.isCancelled {
                return  // The link has ended before this program could end it.
            } catch let error as BlueZError where error.code != .cancelled && error.code != .busUnavailable {
                try await wait(after: error, reason: sentence(error))
            } catch let error as ChannelError { try await wait(after: error, reason: "\(error)") }
        }
    }

    private func wait(after error: any Error, reason: String) async throws {
        if let greeted { backoff.endLink(after: clock.now - greeted, isTransferring: session.download != nil) }
        greeted = nil
        // A peripheral that serves another central ends the link before the greeting.
        let isBusy = !hasGreeted && (error as? BlueZError)?.code == .disconnected
        guard hasGreeted || isBusy else {
            throw error as? BlueZError ?? Failure("\(reason); hint: check that the device runs ble-uart serve")
        }
        guard let wait = backoff.next() else {
            let hint =
                isBusy ? "end the other central of the peripheral" : "check that the peripheral runs and is in range"
            throw Failure("\(reason); attempts without success: \(Backoff.attempts); hint: \(hint)")
        }
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
        session.begin(valueLength: UARTService.valueLength(atMost: connection.maximumValueLength), at: clock.now)
        link = feed
        defer {
            link = nil
            listener.cancel()
            timer?.cancel()
        }
        feed.yield(.wake)  // sends the greeting
        for await input in inputs {
            let events =
                switch input {
                case .value(let value): try session.receive(value, at: clock.now)
                case .wake: try session.wake(at: clock.now)
                }
            for event in events { try show(event) }
            let values = try session.output(at: clock.now)
            if !values.isEmpty { try await connection.send(values, to: rx) }
            if let end, session.isIdle || clock.now >= end { return }
            timer?.cancel()
            timer = [session.deadline, end].compactMap(\.self).min().map { clock.call(at: $0) { feed.yield(.wake) } }
        }
        // The notifications have ended. Normally this is because the link has ended.
        guard let reason = try await atMost(.seconds(5), { try await connection.waitForEnd() }) else {
            throw ChannelError.notificationsEnded
        }
        throw reason.error
    }

    private func show(_ event: CentralSession.Event) throws {
        if event == .ready { (hasGreeted, greeted) = (true, clock.now) }
        backoff.record(event)
        // A device without this protocol, or with another version of it.
        if !hasGreeted, case .refused(let refusal) = event { throw Failure("\(refusal)") }
        report(.session(event))
    }
}
