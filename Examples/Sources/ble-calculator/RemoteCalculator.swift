import BlueZ
import Calculator
import ExampleSupport

/// A connected calculator.
actor RemoteCalculator {
    /// The time in which a calculator must notify a result.
    private static let limit = Duration.seconds(5)

    nonisolated let connection: DeviceConnection
    private let input: GATTCharacteristic
    private let output: GATTCharacteristic
    /// Receives the result of the current calculation.
    private var waiting: AsyncStream<[UInt8]>.Continuation?

    private init(_ connection: DeviceConnection) throws(BlueZError) {
        self.connection = connection
        input = try connection.characteristic(CalculatorService.input, of: CalculatorService.uuid)
        output = try connection.characteristic(CalculatorService.output, of: CalculatorService.uuid)
    }

    /// Connects to a calculator and subscribes to its output while `body` runs.
    static func with<Result>(
        _ client: BlueZClient, _ request: ConnectionRequest, _ body: (RemoteCalculator) async throws -> Result
    ) async throws -> Result {
        try await client.withConnection(request) { connection in
            let calculator = try RemoteCalculator(connection)
            let notifications = try await connection.subscribe(to: calculator.output)
            let listener = Task { await calculator.listen(to: notifications) }
            defer { listener.cancel() }
            return try await body(calculator)
        }
    }

    /// Writes a calculation, and waits for the notification of its result. Call this method for one calculation at a time.
    func calculate(_ calculation: Calculation) async throws -> UInt8 {
        let (results, feed) = AsyncStream.makeStream(of: [UInt8].self)
        waiting = feed
        defer { waiting = nil }
        try await connection.write(calculation.bytes, to: input)
        // Some calculators cannot refuse the write (`CalculatorService`). They refuse this read instead.
        _ = try await connection.read(output)
        let end = ContinuousClock.now + Self.limit
        let timer = Task {
            try await Task.sleep(until: end)
            feed.finish()
        }
        defer { timer.cancel() }
        for await result in results where ContinuousClock.now < end {
            guard result.count == 1 else {
                throw Failure(
                    "the calculator sent \(result.count) bytes instead of one; hint: update the calculator's program")
            }
            // A notification goes to all subscribed centrals, but the output has the result of this central.
            if try await connection.read(output) == result { return result[0] }
        }
        try Task.checkCancellation()
        throw await connection.ended?.error
            ?? Failure("the calculator did not send a result within \(Self.limit); hint: try again")
    }

    /// Passes the notifications to the current calculation. A notification between two calculations is the result of another central.
    private func listen(to notifications: Notifications) async {
        for await value in notifications { waiting?.yield(value) }
        waiting?.finish()
    }
}
