/// A calculation with two operands, as the central writes it to the input characteristic: three bytes, first operand, second operand,
/// operation.
public struct Calculation: Sendable, Hashable {
    /// The raw value is the third byte of the written value.
    public enum Operation: UInt8, Sendable, CaseIterable {
        case add = 0
        case subtract = 1
        case multiply = 2
    }

    public var first: UInt8
    public var operation: Operation
    public var second: UInt8

    public init(_ first: UInt8, _ operation: Operation, _ second: UInt8) {
        self.first = first
        self.operation = operation
        self.second = second
    }

    /// Reads a value of the input characteristic. Throws ``CalculatorError/wrongLength`` and ``CalculatorError/unknownOperation``.
    public init(bytes: [UInt8]) throws(CalculatorError) {
        guard bytes.count == 3 else { throw .wrongLength }
        guard let operation = Operation(rawValue: bytes[2]) else { throw .unknownOperation }
        self.init(bytes[0], operation, bytes[1])
    }

    /// The value for the input characteristic.
    public var bytes: [UInt8] { [first, second, operation.rawValue] }

    /// The value of the output characteristic. Throws ``CalculatorError/resultOutOfRange`` if the result does not fit into one byte.
    public func result() throws(CalculatorError) -> UInt8 {
        let (first, second) = (Int(first), Int(second))
        let result =
            switch operation {
            case .add: first + second
            case .subtract: first - second
            case .multiply: first * second
            }
        guard let byte = UInt8(exactly: result) else { throw .resultOutOfRange }
        return byte
    }
}

extension Calculation: CustomStringConvertible {
    /// The calculation as a person types it, such as `9 x 6`.
    public var description: String { "\(first) \(operation.symbol) \(second)" }
}

extension Calculation.Operation {
    /// Reads the sign of an operation, such as `x`. An asterisk also means multiplication. Nil: the text is not a sign.
    public init?(symbol: some StringProtocol) {
        switch symbol {
        case "+": self = .add
        case "-": self = .subtract
        case "x", "*": self = .multiply
        default: return nil
        }
    }

    public var symbol: String {
        switch self {
        case .add: "+"
        case .subtract: "-"
        case .multiply: "x"
        }
    }

    /// The word with which a peripheral logs the operation.
    public var gerund: String {
        switch self {
        case .add: "Adding"
        case .subtract: "Subtracting"
        case .multiply: "Multiplying"
        }
    }
}
