import ArgumentParser
import BlueZ
import ExampleSupport
import Glibc
import OTASigning
import TerminalText
import UARTProtocol

/// The peripheral.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Be a peripheral until SIGINT or SIGTERM.",
        discussion: """
            A typed line is sent as a text. /toggle changes the toggle.
            Example: ble-uart serve --name Bench --image photo.png
            """)

    @OptionGroup var adapter: AdapterOption
    @OptionGroup var name: NameOption
    @Option(help: "The PNG file to offer, from 1024 to 204800 bytes. Default: a generated image.")
    var image: String?
    @Option(help: "The size of the generated image in bytes.")
    var imageSize = PNG.sizes.upperBound

    func validate() throws {
        guard PNG.sizes.contains(imageSize) else {
            throw ValidationError(
                "--image-size: the value must be from \(PNG.sizes.lowerBound) to \(PNG.sizes.upperBound).")
        }
    }

    func run() async throws {
        let bytes =
            try image.map { try contents(of: $0, atMost: PNG.sizes.upperBound) } ?? PNG.generate(size: imageSize)
        guard PNG.isSupported(bytes) else {
            throw Failure(
                "\(image ?? "The image") is not a PNG file from \(PNG.sizes.lowerBound) to \(PNG.sizes.upperBound) bytes."
            )
        }
        let name = name.name ?? "UART"
        let image = ServedImage(bytes, SHA256.digest(of: bytes))
        try await withClient(interrupted: .success) { client in
            try await client.withPeripheral(over: adapter.adapter, offering: [UARTService.declaration]) { peripheral in
                // The name is all that the peripheral advertises.
                try await peripheral.withAdvertisement(Advertisement(serviceUUIDs: [], localName: name)) {
                    report("Advertising as \(name) over \(peripheral.adapterName)")
                    report("Image: \(image)")
                    var server = UARTServer(peripheral, image)
                    try await server.run()
                }
                peripheral.disconnectAll()
            }
        }
    }
}

/// Serves one central at a time, because a notification goes to all subscribed centrals.
struct UARTServer {
    enum Input: Sendable {
        case event(PeripheralEvent)
        case line(String)
        case deadline
        case idle(PeripheralConnection)
    }

    private let peripheral: Peripheral
    private let image: ServedImage
    private let clock = Stopwatch()
    /// The central that has written first. Nil: no central has written yet.
    private var central: PeripheralConnection?
    private var session: PeripheralSession
    /// The links that this peripheral ends. Their values have no effect.
    private var refused: Set<PeripheralConnection> = []

    init(_ peripheral: Peripheral, _ image: ServedImage) {
        self.peripheral = peripheral
        self.image = image
        session = PeripheralSession(image: image)
    }

    /// Serves until the task is cancelled. Throws ``BlueZError/Code/busUnavailable``.
    mutating func run() async throws {
        let (inputs, feed) = AsyncStream.makeStream(of: Input.self)
        let reader = Task { [peripheral] in
            defer { feed.finish() }
            for try await event in peripheral.events { feed.yield(.event(event)) }
        }
        readLines { feed.yield(.line($0)) }
        var timer: Task<Void, Never>?
        defer {
            reader.cancel()
            timer?.cancel()
        }
        // From the first write on, the session limits the time of a central.
        var limit = IdleLimit(Channel.answerTime, isForFirstWrite: true) { feed.yield(.idle($0)) }
        for await input in inputs {
            if case .event(let event) = input { limit.record(event) }
            handle(input)
            sendOutput()
            timer?.cancel()
            timer = session.deadline.map { clock.call(at: $0) { feed.yield(.deadline) } }
        }
        reportUndelivered(session.undelivered)
        if !Task.isCancelled { try await reader.value }
    }

    private mutating func handle(_ input: Input) {
        switch input {
        case .event(.connected(let connection)): report("\(connection.central) connected")
        case .event(.disconnected(let connection)):
            report("\(connection.central) disconnected")
            end(connection)
            refused.remove(connection)
        // A program of the central has ended, but the link remains. The next program starts with a new session.
        case .event(.subscribed(let connection, _, on: false)): end(connection)
        case .event(.subscribed), .deadline: break
        // The first write may have arrived at the same time.
        case .idle(let connection) where connection == central: break
        case .idle(let connection):
            refuse(connection, "it has sent nothing for \(Channel.answerTime.components.seconds) s")
        case .event(.read(let request)): request.fail(with: .readNotPermitted)
        case .event(.write(let request)): receive(request)
        case .line("/toggle"):
            session.set(toggle: !session.toggle)
            report("toggle \(session.toggle ? "on" : "off")")
        case .line(""): break
        case .line(let text): if !session.send(text) { report("Not sent: \(reason(text))") }
        }
    }

    private func reason(_ text: String) -> String {
        if text.utf8.count >= Channel.longestMessage { return "the line is too long. Type shorter lines." }
        return session.undelivered >= Outbox.limit
            ? "\(Outbox.limit) texts wait. Try again when they have arrived."
            : "no central has greeted. Run ble-uart on another machine."
    }

    private mutating func receive(_ request: WriteRequest) {
        guard request.offset == 0 else { return request.fail(with: .invalidOffset) }
        let connection = request.connection
        if let central, central != connection, !refused.contains(connection), session.isIdle(at: clock.now) {
            let seconds = PeripheralSession.idleTime.components.seconds
            refuse(central, "idle for \(seconds) s, and another central has written")
        }
        let length = UARTService.valueLength(atMost: request.maximumNotificationLength)
        guard !refused.contains(connection), session.admit(connection.number, valueLength: length, at: clock.now)
        else {
            request.fail(with: .procedureInProgress)
            return refuse(connection, "another central is connected")
        }
        central = connection
        request.succeed()
        do throws(ChannelError) {
            for event in try session.receive(request.value, at: clock.now) { show(event) }
        } catch { refuse(connection, "\(error)") }
    }

    private mutating func show(_ event: PeripheralSession.Event) {
        switch event {
        case .hello: report("Hello")
        case .text(let text): report("< \(shown(text))")
        case .toggle(let on): report("toggle \(on ? "on" : "off")")
        case .sendingImage(let offset): report("Sending the image from byte \(offset) of \(image.bytes.count)")
        case .sentImage: report("The image has arrived")
        case .refused(let refusal): report("Refused: \(refusal)")
        case .replaced(let undelivered): reportUndelivered(undelivered)
        }
    }

    private mutating func sendOutput() {
        do throws(ChannelError) {
            for value in try session.output(at: clock.now) { peripheral.notify(value, on: UARTService.localTX) }
        } catch { if let central { refuse(central, "\(error)") } }
    }

    /// Ends a link. BlueZ needs 2 s for this, so more values of the central can arrive.
    private mutating func refuse(_ connection: PeripheralConnection, _ reason: String) {
        guard refused.insert(connection).inserted else { return }
        report("\(connection.central) refused: \(reason)")
        end(connection)
        peripheral.disconnect(connection)
    }

    private mutating func end(_ connection: PeripheralConnection) {
        guard connection == central else { return }
        central = nil
        reportUndelivered(session.undelivered)
        session.end(connection.number)
    }

    private func reportUndelivered(_ count: Int) {
        if count > 0 { report("Texts not confirmed: \(count)") }
    }
}

/// Calls `body` for each line of standard input, without blocking the caller. The last line may have no line feed.
private func readLines(_ body: @escaping @Sendable (String) -> Void) {
    Task {
        var splitter = LineSplitter(limit: Channel.longestMessage)
        for await bytes in standardInput() { splitter.add(bytes).forEach(body) }
        splitter.end().map(body)
    }
}
