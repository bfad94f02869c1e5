import ArgumentParser
import BlueZ
import Calculator
import ExampleSupport

@main
struct BLECalculator: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-calculator", abstract: "Calculate on another machine over Bluetooth LE.",
        discussion: """
            ble-calculator serve    offers a calculator
            ble-calculator 9 x 6    connects to a calculator and prints the result
            ble-calculator          shows a keypad
            """,
        subcommands: [Calculate.self, Serve.self], defaultSubcommand: Calculate.self)
}

/// The central: one calculation, or the keypad.
struct Calculate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Print the result of a calculation, or show a keypad.")

    @OptionGroup var adapter: AdapterOption
    @Option(help: "The address of the calculator. Default: the only calculator in range.")
    var device: BluetoothAddress?

    @Argument(help: "A number from 0 to 255, one of + - x, and another number.")
    var calculation: [String] = []

    func run() async throws {
        let target = device.map { DeviceTarget.address($0) } ?? .only(service: CalculatorService.uuid)
        let request = ConnectionRequest(target, adapter: adapter.adapter, services: [CalculatorService.uuid])
        guard !calculation.isEmpty else { return try await KeypadProgram(request: request).run() }
        let calculation = try parsedCalculation()
        try await withClient { client in
            let result = try await sentences {
                try await RemoteCalculator.with(client, request) { try await $0.calculate(calculation) }
            }
            report("\(calculation) = \(result)")
        }
    }

    private func parsedCalculation() throws -> Calculation {
        guard calculation.count == 3, let first = UInt8(calculation[0]),
            let operation = Calculation.Operation(symbol: calculation[1]), let second = UInt8(calculation[2])
        else {
            throw ValidationError(
                "'\(calculation.joined(separator: " "))' is not a calculation with numbers from 0 to 255; example: 9 x 6"
            )
        }
        return Calculation(first, operation, second)
    }
}

/// Runs `body`, and describes its errors for the user.
func sentences<Result>(_ body: () async throws -> Result) async throws -> Result {
    do { return try await body() } catch let error as BlueZError {
        if let refusal = CalculatorError(error) { throw refusal }
        throw Failure(error)
    }
}
