import BlueZ
import ChatProtocol
import ExampleSupport

/// Runs a messenger: passes it the events of the adapter, the typed lines and the time, and performs its actions.
struct ChatProgram {
    private enum Input: Sendable {
        case event(Messenger.Event)
        case peripheral(PeripheralEvent)
        case typed([UInt8])
        case endOfInput
        case compare(Int, BluetoothAddress, UInt32, AsyncStream<Bool>.Continuation)
    }

    private typealias Radio = (client: BlueZClient, peripheral: Peripheral, advertisement: ActiveAdvertisement)

    private enum Link {
        case central(CentralLink)
        case peripheral(PeripheralConnection)
    }

    private let adapter: String?
    private let name: String
    private let isSecure: Bool
    private let terminal: Terminal?
    private let clock = Stopwatch()
    private var messenger: Messenger
    private var screen: ChatScreen
    private var typing: TypingLine
    private var links: [LinkID: Link] = [:]
    /// The answers to the comparisons that wait for the user.
    private var answers: [Int: AsyncStream<Bool>.Continuation] = [:]
    private let inputs: AsyncStream<Input>
    private let feed: AsyncStream<Input>.Continuation

    init(adapter: String?, name: String, isSecure: Bool, _ terminal: Terminal?, _ messenger: Messenger) {
        self.adapter = adapter
        self.name = name
        self.isSecure = isSecure
        self.terminal = terminal
        self.messenger = messenger
        screen = ChatScreen(name: name)
        typing = TypingLine(isEdited: terminal != nil)
        (inputs, feed) = AsyncStream.makeStream()
    }

    /// Runs until the user quits, or until the task is cancelled. Returns the number of messages that have not arrived.
    func run(_ client: BlueZClient) async throws -> Int {
        let services = [ChatService.declaration(isSecure: isSecure)]
        return try await pairing(client) {
            try await client.withPeripheral(over: adapter, offering: services) { peripheral in
                let advertisement = messenger.announcement.advertisement(name: name)
                return try await peripheral.withAdvertisement(advertisement) { advertisement in
                    let scan = Task { await reportPeers(client) }
                    let input = Task {
                        for await bytes in standardInput() { feed.yield(.typed(bytes)) }
                        feed.yield(.endOfInput)
                    }
                    let events = Task {
                        defer { feed.finish() }
                        for try await event in peripheral.events { feed.yield(.peripheral(event)) }
                    }
                    defer { for task in [scan, input] { task.cancel() } }
                    var program = self
                    let undelivered = await program.loop((client, peripheral, advertisement))
                    events.cancel()
                    try await events.value  // throws if the connection to the bus has ended
                    return undelivered
                }
            }
        }
    }

    /// Runs `body`. With `--secure`, answers pairing requests with the comparison of a number.
    private func pairing(_ client: BlueZClient, _ body: () async throws -> Int) async throws -> Int {
        guard isSecure else { return try await body() }
        let responder = PairingResponder.numericComparison { [feed] device, number in
            let (answers, answer) = AsyncStream.makeStream(of: Bool.self)
            let id = Int.random(in: 0 ... .max)
            feed.yield(.compare(id, device.address, number, answer))
            // The pairing may end without an answer.
            defer { feed.yield(.event(.withdrawn(id))) }
            for await answer in answers { return answer }
            return false
        }
        return try await client.withPairing(over: adapter, responder, body)
    }

    /// Passes the peers in range to the messenger.
    private func reportPeers(_ client: BlueZClient) async {
        let filter = ScanFilter(services: [ChatService.discovery, ChatService.uuid])
        await client.keepScanning(
            over: adapter, for: filter, failed: { feed.yield(.event(.scanFailed(sentence($0)))) }
        ) { event in if let event = Messenger.Event(event) { feed.yield(.event(event)) } }
    }

    private mutating func loop(_ radio: Radio) async -> Int {
        let peripheral = radio.peripheral
        if terminal == nil { report("\(name) is in range of other peers over \(peripheral.adapterName)") }
        draw()
        var timer: Task<Void, Never>?
        defer { timer?.cancel() }
        // From the first write on, the messenger limits the time of a central. With `--secure`, the users first compare a number.
        var limit = IdleLimit(.seconds(60), isForFirstWrite: true) { peripheral.disconnect($0) }
        // A cancellation ends the inputs.
        for await input in inputs {
            if case .peripheral(let event) = input { limit.record(event) }
            for action in actions(for: input) { await perform(action, radio) }
            draw()
            timer?.cancel()
            timer = messenger.deadline.map { [feed] in clock.call(at: $0) { feed.yield(.event(.wake)) } }
        }
        // After a signal, the goodbye is sent without a wait for its acknowledgement.
        let actions = handle(.typed("/quit")) + messenger.handle(.wake, at: clock.now + Messenger.quitLimit)
        for action in actions { await perform(action, radio) }
        for case .central(let link) in links.values {
            link.disconnect()
            await link.waitForEnd()
        }
        peripheral.disconnectAll()
        // Without a terminal, a line without an end before a signal counts, too.
        return messenger.undelivered + (terminal == nil ? messenger.refusedLines + (typing.text.isEmpty ? 0 : 1) : 0)
    }

    /// Passes an input to the messenger, and returns the actions.
    private mutating func actions(for input: Input) -> [Messenger.Action] {
        switch input {
        case .event(let event):
            if case .unlinked(let id, _) = event { links[id] = nil }
            if case .withdrawn(let id) = event { answers[id] = nil }
            return handle(event)
        case .peripheral(.write(let request)): return received(request)
        // A program of the central has ended, but the link remains.
        case .peripheral(.subscribed(let connection, _, on: false)), .peripheral(.disconnected(let connection)):
            let id = LinkID.peripheral(connection.number)
            return links.removeValue(forKey: id) == nil ? [] : handle(.unlinked(id, "the other peer disconnected"))
        case .peripheral: return []
        case .typed(let bytes):
            let actions = typing.type(bytes).flatMap { handle(.typed($0)) }
            return typing.hasEnded ? actions + handle(.inputEnded) : actions
        case .endOfInput: return handle(.typed(typing.end())) + handle(.inputEnded)
        case .compare(let id, let address, let number, let answer):
            answers[id] = answer
            return handle(.compare(id, address, number))
        }
    }

    private mutating func handle(_ event: Messenger.Event) -> [Messenger.Action] {
        messenger.handle(event, at: clock.now)
    }

    private mutating func perform(_ action: Messenger.Action, _ radio: Radio) async {
        switch action {
        case .advertise(let announcement):
            do throws(BlueZError) {
                try await radio.advertisement.change(to: announcement.advertisement(name: name))
            } catch { feed.yield(.event(.advertisingFailed(sentence(error)))) }
        case .connect(let id, let address):
            let request = ConnectionRequest(.address(address), adapter: adapter, services: [ChatService.uuid])
            links[id] = .central(
                CentralLink(radio.client, request, isSecure: isSecure, id) { [feed] in feed.yield(.event($0)) })
        case .transmit(let id, let values): send(values, on: id, radio.peripheral)
        case .disconnect(let id):
            switch links[id] {
            case .central(let link): link.disconnect()
            case .peripheral(let connection): radio.peripheral.disconnect(connection)
            case nil: break
            }
        case .answer(let id, let isSame): answers.removeValue(forKey: id)?.yield(isSame)
        case .show(let entry):
            screen.show(entry)
            if terminal == nil, let line = entry.line { report(line) }
        case .quit: feed.finish()
        case .refuse: break  // see received(_:)
        }
    }

    private mutating func send(_ values: [[UInt8]], on id: LinkID, _ peripheral: Peripheral) {
        switch links[id] {
        case .central(var link):
            link.send(values)
            links[id] = .central(link)
        case .peripheral:
            for value in values { peripheral.notify(value, on: ChatService.attribute) }
        case nil: break
        }
    }

    /// Passes a written value to the messenger. The first value of a central starts its link.
    private mutating func received(_ request: WriteRequest) -> [Messenger.Action] {
        guard request.offset == 0 else {
            request.fail(with: .invalidOffset)
            return []
        }
        let id = LinkID.peripheral(request.connection.number)
        var actions: [Messenger.Action] = []
        if links[id] == nil {
            links[id] = .peripheral(request.connection)
            let length = ChatService.maximumFrameLength(mtu: request.mtu ?? 23)
            actions = handle(.linked(id, with: request.connection.central, frameLength: length))
        }
        actions += handle(.received(id, request.value))
        for case .refuse(let error) in actions { request.fail(with: error.attributeError) }
        request.succeed()
        return actions
    }

    private func draw() {
        guard let terminal else { return }
        let size = terminal.size
        terminal.show(screen.lines(messenger, typing, width: size.width, height: size.height))
    }
}
