import ArgumentParser
import BlueZ
import Calculator
import ExampleSupport

/// The peripheral.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Offer a calculator until SIGINT or SIGTERM.")

    /// The time after which an idle central loses its connection. A person with a keypad may think for some minutes.
    private static let idleTime = Duration.seconds(300)

    @OptionGroup var adapter: AdapterOption
    @OptionGroup var name: NameOption

    func run() async throws {
        let name = name.name ?? "Calculator"
        try await withClient(interrupted: .success) { client in
            try await client.withPeripheral(over: adapter.adapter, offering: [CalculatorService.declaration]) {
                peripheral in
                let advertisement = Advertisement(serviceUUIDs: [CalculatorService.uuid], localName: name)
                try await peripheral.withAdvertisement(advertisement) {
                    report("Advertising as \(name) over \(peripheral.adapterName)")
                    var server = CalculatorServer(peripheral)
                    var limit = IdleLimit(Self.idleTime) { peripheral.disconnect($0) }
                    // A cancellation ends the events.
                    for try await event in peripheral.events {
                        limit.record(event)
                        server.handle(event)
                    }
                }
                peripheral.disconnectAll()
            }
        }
    }
}

/// Answers the requests of centrals. Several centrals may be connected. Each one can read the outcome of its own last calculation.
struct CalculatorServer {
    private let peripheral: Peripheral
    private var outcomes = Outcomes<PeripheralConnection>()

    init(_ peripheral: Peripheral) { self.peripheral = peripheral }

    mutating func handle(_ event: PeripheralEvent) {
        switch event {
        case .connected(let connection): report("\(connection.central) connected")
        case .disconnected(let connection):
            outcomes.remove(connection)
            report("\(connection.central) disconnected")
        case .subscribed: break
        case .write(let request): calculate(request)
        case .read(let request): answer(request)
        }
    }

    private mutating func calculate(_ request: WriteRequest) {
        guard request.offset == 0 else { return request.fail(with: .invalidOffset) }
        do throws(CalculatorError) {
            let result = try outcomes.store(for: request.connection, at: .now) { () throws(CalculatorError) in
                let calculation = try Calculation(bytes: request.value)
                report("\(calculation.operation.gerund): \(hex(calculation.first)) \(hex(calculation.second))")
                return try calculation.result()
            }
            request.succeed()
            report("Sending response: \(hex(result))")
            peripheral.notify([result], on: CalculatorService.localOutput)
        } catch {
            request.fail(with: error.attributeError)
            report("Refusing: \(error)")
        }
    }

    /// Answers with the outcome of the central's last calculation: the result or the error. Before the first calculation, the value is 0.
    private func answer(_ request: ReadRequest) {
        switch outcomes.read(by: request.connection) {
        case .success(let result) where request.offset <= 1:
            request.succeed(with: request.offset == 0 ? [result] : [])
        case .success: request.fail(with: .invalidOffset)
        case .failure(let error): request.fail(with: error.attributeError)
        }
    }
}

private func hex(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true) }
