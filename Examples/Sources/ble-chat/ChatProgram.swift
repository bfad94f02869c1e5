import BlueZ
import ChatProtocol
import ExampleSupport

/// Runs a messenger: passes it the events of the adapter and the typed lines, and performs its actions.
struct ChatProgram {
    private enum Input: Sendable {
        /// An event that does not belong to a link.
        case event(Messenger.Event)
        /// An event of the link with this number.
        case link(Int, Messenger.Event)
        case peripheral(PeripheralEvent)
        case typed([UInt8])
        case endOfInput
        case compare(UInt32, AsyncStream<Bool>.Continuation)
    }

    private enum Link {
        case central(CentralLink)
        case peripheral(PeripheralConnection)
    }

    private static let handshakeLimit = Duration.seconds(5)

    private let adapter: String?
    private let name: String
    private let isSecure: Bool
    private var messenger: Messenger
    private var screen: ChatScreen
    private var link: Link?
    private var linkNumber = 0
    private var answer: AsyncStream<Bool>.Continuation?
    private var hasInputEnded = false
    private let inputs: AsyncStream<Input>
    private let feed: AsyncStream<Input>.Continuation

    init(adapter: String?, name: String, isSecure: Bool, _ messenger: Messenger) {
        self.adapter = adapter
        self.name = name
        self.isSecure = isSecure
        self.messenger = messenger
        screen = ChatScreen(name: name)
        (inputs, feed) = AsyncStream.makeStream()
    }

    func run(on terminal: Terminal?) async throws {
        let client = try await BlueZClient.open()
        let services = [ChatService.declaration(isSecure: isSecure)]
        try await pairing(client) {
            try await client.withPeripheral(over: adapter, offering: services) { peripheral in
                let advertisement = messenger.announcement.advertisement(name: name)
                try await peripheral.withAdvertisement(advertisement) { advertisement in
                    let sources = [
                        Task { await scan(client) },
                        Task { for try await event in peripheral.events { feed.yield(.peripheral(event)) } },
                        Task {
                            for await bytes in standardInput() { feed.yield(.typed(bytes)) }
                            feed.yield(.endOfInput)
                        },
                    ]
                    defer { for source in sources { source.cancel() } }
                    var program = self
                    try await program.loop(client, peripheral, advertisement, terminal)
                }
            }
        }
    }

    /// Runs `body`. With `--secure`, answers pairing requests with the comparison of a number.
    private func pairing(_ client: BlueZClient, _ body: () async throws -> Void) async throws {
        guard isSecure else { return try await body() }
        let responder = PairingResponder.numericComparison { [feed] _, number in
            let (answers, answer) = AsyncStream.makeStream(of: Bool.self)
            feed.yield(.compare(number, answer))
            for await answer in answers { return answer }
            return false
        }
        try await client.withPairing(over: adapter, responder, body)
    }

    /// Reports the peers in range. After a restart of bluetoothd, starts a new scan.
    private func scan(_ client: BlueZClient) async {
        let filter = ScanFilter(services: [ChatService.discovery, ChatService.uuid])
        while !Task.isCancelled {
            try? await client.withScan(over: adapter, for: filter) { scan in
                for try await event in scan {
                    if let event = Messenger.Event(event) { feed.yield(.event(event)) }
                }
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    private mutating func loop(
        _ client: BlueZClient, _ peripheral: Peripheral, _ advertisement: ActiveAdvertisement, _ terminal: Terminal?
    ) async throws {
        if terminal == nil { report("\(name) is in range of other peers over \(peripheral.adapterName)") }
        draw(terminal)
        // A cancellation ends the inputs.
        for await input in inputs {
            for action in actions(for: input) {
                switch (action, link) {
                case (.advertise(let announcement), _):
                    try await advertisement.change(to: announcement.advertisement(name: name))
                case (.connect(let address, let delay), _): connect(client, address, after: delay)
                case (.transmit(let frames), .central(let link)): link.send(frames)
                case (.transmit(let frames), .peripheral):
                    for frame in frames { peripheral.notify(frame.bytes, on: ChatService.attribute) }
                case (.disconnect, .central(let link)): link.disconnect()
                case (.disconnect, .peripheral(let connection)): peripheral.disconnect(connection)
                case (.answer(let answer), _): self.answer?.yield(answer)
                case (.show(let entry), _):
                    screen.show(entry)
                    if terminal == nil, let line = entry.line { report(line) }
                case (.quit, _): feed.finish()
                case (.refuse, _), (.transmit, nil), (.disconnect, nil): break
                }
            }
            if hasInputEnded, !messenger.hasUndelivered { feed.yield(.event(.typed("/quit"))) }
            draw(terminal)
        }
        switch link {
        case .central(let link):
            if messenger.isOpen { link.send([.goodbye]) }
            link.disconnect()
            await link.waitForEnd()
        case .peripheral where messenger.isOpen:
            peripheral.notify(Frame.goodbye.bytes, on: ChatService.attribute)
        case .peripheral, nil: break
        }
        peripheral.disconnectAll()
    }

    private func draw(_ terminal: Terminal?) {
        guard let terminal else { return }
        let (width, height) = terminal.size
        terminal.show(screen.lines(messenger, width: width, height: height))
    }

    /// Passes an input to the messenger, and returns the actions.
    private mutating func actions(for input: Input) -> [Messenger.Action] {
        switch input {
        case .event(let event): return messenger.handle(event)
        case .link(linkNumber, let event):
            if case .linked = event { startHandshake() }
            if case .unlinked = event { link = nil }
            return messenger.handle(event)
        case .peripheral(.write(let request)): return received(request)
        case .peripheral(.disconnected(let connection)):
            guard case .peripheral(connection) = link else { return [] }
            link = nil
            return messenger.handle(.unlinked("the other peer disconnected"))
        case .link, .peripheral: return []
        case .typed(let bytes): return screen.type(bytes).flatMap { messenger.handle(.typed($0)) }
        case .endOfInput:
            hasInputEnded = true
            return []
        case .compare(let number, let answer):
            self.answer = answer
            return messenger.handle(.compare(number))
        }
    }

    private mutating func connect(_ client: BlueZClient, _ address: BluetoothAddress, after delay: Duration) {
        linkNumber += 1
        let request = ConnectionRequest(.address(address), adapter: adapter, services: [ChatService.uuid])
        link = .central(
            CentralLink(client, request, isSecure: isSecure, after: delay) { [feed, linkNumber] in
                feed.yield(.link(linkNumber, $0))
            })
    }

    /// Starts the time limit of the handshake.
    private mutating func startHandshake() {
        if case .central(var central) = link {
            central.isLinked = true
            link = .central(central)
        }
        Task { [feed, linkNumber] in
            try await Task.sleep(for: Self.handshakeLimit)
            feed.yield(.link(linkNumber, .handshakeExpired))
        }
    }

    /// Passes a written frame to the messenger. The first frame of a central starts its link. Other centrals are refused until it ends.
    private mutating func received(_ request: WriteRequest) -> [Messenger.Action] {
        var actions: [Messenger.Action] = []
        if link == nil {
            linkNumber += 1
            link = .peripheral(request.connection)
            startHandshake()
            let frameLength = ChatService.maximumFrameLength(mtu: request.mtu ?? 23)
            actions = messenger.handle(.linked(asCentral: false, frameLength: frameLength))
        }
        guard case .peripheral(request.connection) = link, request.offset == 0 else {
            request.fail(with: ChatError.notExpected.attributeError)
            return actions
        }
        actions += messenger.handle(.received(request.value))
        for case .refuse(let error) in actions { request.fail(with: error.attributeError) }
        request.succeed()
        return actions
    }
}
