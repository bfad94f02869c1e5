import BlueZ
import Calculator
import Testing

@Suite("Calculator: values of the protocol")
struct CalculationTests {
    @Test("a calculation is three bytes: first operand, second operand, operation")
    func layout() throws {
        #expect(Calculation(9, .multiply, 6).bytes == [0x09, 0x06, 0x02])
        #expect(Calculation(200, .add, 55).bytes == [0xC8, 0x37, 0x00])
        #expect(try Calculation(bytes: [0x07, 0x05, 0x01]) == Calculation(7, .subtract, 5))
    }

    @Test(
        "a value with another length is refused with the ATT error 0x0D",
        arguments: [[], [9], [9, 6], [9, 6, 2, 0]] as [[UInt8]])
    func wrongLength(bytes: [UInt8]) {
        #expect(throws: CalculatorError.wrongLength) { try Calculation(bytes: bytes) }
        #expect(CalculatorError.wrongLength.attributeError.code == 0x0D)
    }

    @Test(
        "an operation other than 0, 1 and 2 is refused with an ATT error of the application", arguments: [3, 0x80, 255])
    func unknownOperation(operation: UInt8) {
        #expect(throws: CalculatorError.unknownOperation) { try Calculation(bytes: [9, 6, operation]) }
        #expect(CalculatorError.unknownOperation.attributeError.code == 0x80)
    }

    @Test("each result from 0 to 255 is one byte, and each other result is refused")
    func results() {
        for first in UInt8.min...UInt8.max {
            let wrong = (UInt8.min...UInt8.max).filter { second in
                let (a, b) = (Int(first), Int(second))
                return result(first, .add, second) != UInt8(exactly: a + b)
                    || result(first, .subtract, second) != UInt8(exactly: a - b)
                    || result(first, .multiply, second) != UInt8(exactly: a * b)
            }
            #expect(wrong.isEmpty, "first operand \(first)")
        }
    }

    /// The result of a calculation. Nil: the calculator refuses the calculation.
    private func result(_ first: UInt8, _ operation: Calculation.Operation, _ second: UInt8) -> UInt8? {
        do throws(CalculatorError) { return try Calculation(first, operation, second).result() } catch {
            return error == .resultOutOfRange ? nil : 0
        }
    }

    @Test("a sign that a person types selects the operation")
    func symbols() {
        #expect(Calculation.Operation(symbol: "+") == .add && Calculation.Operation(symbol: "-") == .subtract)
        #expect(Calculation.Operation(symbol: "x") == .multiply && Calculation.Operation(symbol: "*") == .multiply)
        #expect(Calculation.Operation(symbol: "/") == nil && Calculation.Operation(symbol: "") == nil)
        #expect("\(Calculation(9, .multiply, 6))" == "9 x 6")
    }

    @Test("the ATT error of a calculator is translated to its reason, as BlueZ reports the error")
    func errors() {
        #expect(CalculatorError(BlueZError(.invalidLength, "")) == .wrongLength)
        #expect(CalculatorError(BlueZError(.attributeError, "", attributeError: 0x80)) == .unknownOperation)
        #expect(CalculatorError(BlueZError(.attributeError, "", attributeError: 0x81)) == .resultOutOfRange)
        #expect(CalculatorError(BlueZError(.attributeError, "", attributeError: 0x82)) == .tooManyCalculations)
        #expect(CalculatorError(BlueZError(.attributeError, "", attributeError: 0x0E)) == nil)
        #expect(CalculatorError(BlueZError(.disconnected, "")) == nil)
    }

    @Test("the characteristics have the operations of the protocol")
    func declaration() {
        let operations = CalculatorService.declaration.characteristics.map(\.operations)
        #expect(operations == [[.write, .writeWithoutResponse], [.read, .notify]])
        #expect(CalculatorService.uuid.description == "13d00001-cba1-45cc-992d-618377d1b182")
    }
}

@Suite("Calculator: outcomes of the centrals")
struct OutcomesTests {
    private var outcomes = Outcomes<Int>()
    private let start = ContinuousClock.now

    @Test("a central gets 16 results within a second, then refusals without a calculation")
    mutating func limit() throws {
        for number in 1...16 as ClosedRange<UInt8> {
            #expect(try outcomes.store(for: 1, at: start + .milliseconds(Int(number) * 10)) { number } == number)
        }
        for tenth in 1...9 {
            #expect(throws: CalculatorError.tooManyCalculations) {
                try outcomes.store(for: 1, at: start + .milliseconds(tenth * 100)) {
                    Issue.record("it calculates")
                    return 0
                }
            }
        }
        #expect(try outcomes.store(for: 2, at: start + .milliseconds(900)) { 7 } == 7)
        #expect(outcomes.read(by: 1) == .failure(.tooManyCalculations) && outcomes.read(by: 2) == .success(7))
        let next = start + .milliseconds(1010)
        for number in 1...16 as ClosedRange<UInt8> {
            #expect(try outcomes.store(for: 1, at: next) { number } == number)
        }
        #expect(throws: CalculatorError.tooManyCalculations) { try outcomes.store(for: 1, at: next) { 0 } }
    }

    @Test("a read returns the outcome of the central's last calculation, and a refused value does not count")
    mutating func reads() throws {
        #expect(outcomes.read(by: 1) == .success(0))
        #expect(try outcomes.store(for: 1, at: start) { 54 } == 54)
        #expect(outcomes.read(by: 1) == .success(54) && outcomes.read(by: 2) == .success(0))
        for _ in 0..<100 {
            #expect(throws: CalculatorError.wrongLength) {
                try outcomes.store(for: 1, at: start) { () throws(CalculatorError) in throw .wrongLength }
            }
        }
        #expect(try outcomes.store(for: 1, at: start) { 3 } == 3)
        outcomes.remove(1)
        #expect(outcomes.read(by: 1) == .success(0))
    }
}
