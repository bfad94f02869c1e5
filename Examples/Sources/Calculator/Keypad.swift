/// The state of the keypad on the terminal. It is a value without a terminal and without a link: ``handle(_:)`` changes the state and
/// returns the next action of the program, and ``screen`` is the text to show.
public struct Keypad: Sendable {
    public enum Key: Sendable, Hashable {
        case digit(UInt8)
        case operation(Calculation.Operation)
        case connect, disconnect, quit
    }

    public enum Event: Sendable, Hashable {
        case key(Key)
        /// The link exists. The text names the calculator.
        case connected(String)
        /// The link has ended, or could not be made. The text is the reason; nil: the user ended the link.
        case disconnected(String?)
        case result(UInt8)
        case refused(CalculatorError)
    }

    public enum Action: Sendable, Hashable {
        case connect, disconnect, quit
        /// End the attempt to connect.
        case cancel
        case calculate(Calculation)
    }

    private enum Link: Hashable {
        case down(String?)
        case connecting, disconnecting
        case up(String)
    }

    private enum Entry: Hashable {
        case nothing
        case first(UInt8)
        case operation(UInt8, Calculation.Operation)
        case calculating(Calculation)
        case answered(String)
    }

    private var link = Link.down(nil)
    private var entry = Entry.nothing

    public init() {}

    /// Changes the state. Keys without a meaning in the current state have no effect.
    ///
    /// - Returns: the action of the program. Nil: no action.
    public mutating func handle(_ event: Event) -> Action? {
        switch event {
        case .key(let key): return press(key)
        case .connected(let name):
            // The user may have ended the attempt already.
            if link == .connecting { link = .up(name) }
            entry = .nothing
        case .disconnected(let reason): link = .down(reason)
        case .result(let result): answer { "\($0) = \(result)" }
        case .refused(let error): answer { "\($0): \(error)" }
        }
        return nil
    }

    private mutating func answer(_ text: (Calculation) -> String) {
        if case .calculating(let calculation) = entry { entry = .answered(text(calculation)) }
    }

    private mutating func press(_ key: Key) -> Action? {
        switch (key, link) {
        case (.quit, _): return .quit
        case (.connect, .down):
            link = .connecting
            return .connect
        case (.disconnect, .up):
            link = .disconnecting
            return .disconnect
        case (.disconnect, .connecting):
            link = .disconnecting
            return .cancel
        case (.digit, .up), (.operation, .up): return enter(key)
        default: return nil
        }
    }

    /// Adds a digit or an operation. The second digit completes the calculation. After an answer, a digit starts the next calculation.
    private mutating func enter(_ key: Key) -> Action? {
        switch (entry, key) {
        case (.nothing, .digit(let first)), (.first, .digit(let first)), (.answered, .digit(let first)):
            entry = .first(first)
        case (.first(let first), .operation(let operation)), (.operation(let first, _), .operation(let operation)):
            entry = .operation(first, operation)
        case (.operation(let first, let operation), .digit(let second)):
            let calculation = Calculation(first, operation, second)
            entry = .calculating(calculation)
            return .calculate(calculation)
        default: break
        }
        return nil
    }

    /// The lines to show. The keys of the calculator are visible only while the link exists.
    public var screen: [String] {
        switch link {
        case .down(let reason): ["Not connected" + (reason.map { ": \($0)." } ?? "."), "", "c connect   q quit"]
        case .connecting: ["Connecting…", "", "d disconnect   q quit"]
        case .disconnecting: ["Disconnecting…", "", "q quit"]
        case .up(let name):
            [
                "Connected to \(name).", "", "> " + typed, "", "7 8 9   +", "4 5 6   -", "1 2 3   x", "  0", "",
                "d disconnect   q quit",
            ]
        }
    }

    private var typed: String {
        switch entry {
        case .nothing: ""
        case .first(let first): "\(first)"
        case .operation(let first, let operation): "\(first) \(operation.symbol)"
        case .calculating(let calculation): "\(calculation)  Calculating…"
        case .answered(let text): text
        }
    }
}

extension Keypad.Key {
    /// The meaning of a typed character. Nil: the character has no meaning.
    public init?(_ character: Character) {
        // A character such as "1" with an accent compares between "0" and "9", but is no ASCII digit.
        if let code = character.asciiValue, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(code) {
            self = .digit(code - UInt8(ascii: "0"))
            return
        }
        switch character {
        case "c": self = .connect
        case "d": self = .disconnect
        case "q": self = .quit
        default:
            guard let operation = Calculation.Operation(symbol: String(character)) else { return nil }
            self = .operation(operation)
        }
    }
}
