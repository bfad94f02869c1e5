import BlueZ
import Calculator
import ExampleSupport

/// Shows the keypad on the terminal, and performs its actions.
struct KeypadProgram {
    var request: ConnectionRequest

    func run() async throws {
        try await withClient { client in
            try await Terminal.with(hint: "ble-calculator 9 x 6") { await loop(client, $0) }
        }
    }

    private func loop(_ client: BlueZClient, _ terminal: Terminal) async {
        let (events, feed) = AsyncStream.makeStream(of: Keypad.Event.self)
        terminal.onKey { character in
            if let key = Keypad.Key(character) { feed.yield(.key(key)) }
        }
        var keypad = Keypad()
        var session: Session?
        terminal.show(keypad.screen)
        for await event in events {
            switch keypad.handle(event) {
            case .connect: session = Session(client, request, feed)
            case .disconnect: session?.disconnect()
            case .cancel: session?.cancel()
            case .calculate(let calculation): session?.calculate(calculation)
            case .quit: feed.finish()
            case nil: break
            }
            terminal.show(keypad.screen)
        }
        session?.cancel()
        await session?.waitForEnd()
    }
}

/// One connection of the keypad, from the key "connect" to the end of the link. It reports its progress as events of the keypad.
private struct Session {
    private let task: Task<Void, Never>
    private let calculations: AsyncStream<Calculation>.Continuation

    init(_ client: BlueZClient, _ request: ConnectionRequest, _ feed: AsyncStream<Keypad.Event>.Continuation) {
        let (calculations, requests) = AsyncStream.makeStream(of: Calculation.self)
        self.calculations = requests
        task = Task {
            do {
                try await sentences {
                    try await RemoteCalculator.with(client, request) { calculator in
                        feed.yield(.connected(calculator.connection.device.address.description))
                        let watcher = Task {
                            _ = try await calculator.connection.waitForEnd()
                            requests.finish()
                        }
                        defer { watcher.cancel() }
                        for await calculation in calculations {
                            feed.yield(try await Self.event(of: calculation, calculator))
                        }
                        if let end = await calculator.connection.ended { throw end.error }
                    }
                }
                feed.yield(.disconnected(nil))
            } catch {
                feed.yield(.disconnected(Task.isCancelled ? nil : "\(error)"))
            }
        }
    }

    /// Calculates, and describes the outcome. Other errors than a refusal end the connection.
    private static func event(of calculation: Calculation, _ calculator: RemoteCalculator) async throws -> Keypad.Event
    {
        do { return .result(try await calculator.calculate(calculation)) } catch let error as BlueZError {
            guard let refusal = CalculatorError(error) else { throw error }
            return .refused(refusal)
        }
    }

    func calculate(_ calculation: Calculation) { calculations.yield(calculation) }

    /// Ends the link after the current calculation.
    func disconnect() { calculations.finish() }

    /// Ends the attempt to connect. If the link exists, requests its end.
    func cancel() { task.cancel() }

    func waitForEnd() async { await task.value }
}
