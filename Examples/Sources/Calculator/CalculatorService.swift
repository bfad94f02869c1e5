public import BlueZ

/// The GATT service of a calculator. A central writes a ``Calculation`` to the input. The calculator notifies the result on the output.
///
/// A read of the output returns the result of the central's last calculation, or the ATT error of this calculation if the calculator
/// refused it. A central needs this read because some peripherals cannot refuse a write in its response. BlueZ 5.66 is one of them: if a
/// characteristic permits writes without response, BlueZ reports success for each write before the program has seen the value.
public enum CalculatorService {
    public static let uuid = BluetoothUUID(0x13d0_0001_cba1_45cc_992d_6183_77d1_b182)
    public static let input = BluetoothUUID(0x13d0_0002_cba1_45cc_992d_6183_77d1_b182)
    public static let output = BluetoothUUID(0x13d0_0003_cba1_45cc_992d_6183_77d1_b182)

    /// The declaration of the service for a peripheral.
    public static let declaration = LocalService(
        uuid,
        [
            LocalCharacteristic(input, [.write, .writeWithoutResponse]),
            LocalCharacteristic(output, [.read, .notify]),
        ])
    public static let localInput = LocalAttribute(uuid, input)
    public static let localOutput = LocalAttribute(uuid, output)
}

/// The reason why a calculator refuses a calculation. Each reason has an ATT error code.
public enum CalculatorError: Error, Sendable, Hashable, CaseIterable {
    case wrongLength
    case unknownOperation
    case resultOutOfRange
    /// The central has had ``Outcomes/limit`` results within a second.
    case tooManyCalculations

    /// The ATT error. The codes 0x80 to 0x9F are for applications (Core Specification, Vol 3, Part F, 3.4.1.1).
    public var attributeError: AttributeError {
        switch self {
        case .wrongLength: .invalidLength
        case .unknownOperation: AttributeError(code: 0x80)
        case .resultOutOfRange: AttributeError(code: 0x81)
        case .tooManyCalculations: AttributeError(code: 0x82)
        }
    }

    /// Translates the error of a read or a write. Nil: the error is not an answer of a calculator.
    public init?(_ error: BlueZError) {
        // BlueZ reports the ATT error 0x0D with a name of its own, and other ATT errors with their code.
        let code = error.code == .invalidLength ? AttributeError.invalidLength.code : error.attributeError
        guard let found = Self.allCases.first(where: { $0.attributeError.code == code }) else { return nil }
        self = found
    }
}

extension CalculatorError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .wrongLength: "the calculator expects three bytes"
        case .unknownOperation: "the calculator does not support this operation"
        case .resultOutOfRange: "the result is not a number from 0 to 255"
        case .tooManyCalculations: "the central had \(Outcomes<Int>.limit) results within a second"
        }
    }
}

/// The outcome of the last calculation of each central, and a limit for the results of a central.
///
/// bluetoothd queues notifications without a limit. A central that writes without response and does not receive could make this queue grow
/// quickly.
public struct Outcomes<Central: Hashable & Sendable>: Sendable {
    /// The number of results that a central can request within a second.
    public static var limit: Int { 16 }

    private struct Entry {
        /// The value before the first calculation is 0.
        var outcome = Result<UInt8, CalculatorError>.success(0)
        /// The start of the current second, and the number of results since then.
        var second: ContinuousClock.Instant
        var results = 0
    }

    private var entries: [Central: Entry] = [:]

    public init() {}

    /// Stores the outcome of a calculation, and returns its result. Throws the error of `calculate`, or
    /// ``CalculatorError/tooManyCalculations`` without a call of `calculate`.
    public mutating func store(
        for central: Central, at now: ContinuousClock.Instant, _ calculate: () throws(CalculatorError) -> UInt8
    ) throws(CalculatorError) -> UInt8 {
        var entry = entries[central, default: Entry(second: now)]
        defer { entries[central] = entry }
        if now - entry.second >= .seconds(1) { (entry.second, entry.results) = (now, 0) }
        do throws(CalculatorError) {
            guard entry.results < Self.limit else { throw .tooManyCalculations }
            let result = try calculate()
            entry.outcome = .success(result)
            entry.results += 1
            return result
        } catch {
            entry.outcome = .failure(error)
            throw error
        }
    }

    /// Returns the outcome of the central's last calculation for a read.
    public func read(by central: Central) -> Result<UInt8, CalculatorError> { entries[central]?.outcome ?? .success(0) }

    /// Removes the outcome of a central whose link has ended.
    public mutating func remove(_ central: Central) { entries[central] = nil }
}
