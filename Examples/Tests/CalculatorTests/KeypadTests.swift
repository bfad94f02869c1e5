import Calculator
import Testing

@Suite("Calculator: keypad")
struct KeypadTests {
    private var keypad = Keypad()

    /// Types the characters, and returns the actions of the program.
    private mutating func type(_ characters: String) -> [Keypad.Action] {
        characters.compactMap { Keypad.Key($0) }.compactMap { keypad.handle(.key($0)) }
    }

    private mutating func connect() {
        _ = type("c")
        _ = keypad.handle(.connected("Bench"))
    }

    private var typed: String? { keypad.screen.first { $0.hasPrefix("> ") } }
    private var showsDigits: Bool { keypad.screen.contains("7 8 9   +") }

    @Test("two digits and an operation make a calculation, and the screen shows its result")
    mutating func calculates() {
        connect()
        #expect(type("9x") == [] && typed == "> 9 x")
        #expect(type("6") == [.calculate(Calculation(9, .multiply, 6))])
        #expect(typed == "> 9 x 6  Calculating…")
        #expect(keypad.handle(.result(54)) == nil && typed == "> 9 x 6 = 54")
        #expect(type("7-5") == [.calculate(Calculation(7, .subtract, 5))])
    }

    @Test("keys have no effect during a calculation, and a refusal is a sentence")
    mutating func refuses() {
        connect()
        #expect(type("3-9").count == 1)
        #expect(type("1+1") == [] && typed == "> 3 - 9  Calculating…")
        #expect(keypad.handle(.refused(.resultOutOfRange)) == nil)
        #expect(typed == "> 3 - 9: the result is not a number from 0 to 255")
    }

    @Test("a second digit or operation replaces the first one, and an operation needs a digit before it")
    mutating func corrects() {
        connect()
        #expect(type("+") == [] && typed == "> ")
        #expect(type("12+-x3") == [.calculate(Calculation(2, .multiply, 3))])
    }

    @Test("the keypad is hidden while the link does not exist")
    mutating func hides() {
        #expect(!showsDigits && keypad.screen.first == "Not connected.")
        #expect(type("9x6") == [])
        #expect(type("cc") == [.connect])
        #expect(!showsDigits && keypad.screen.first == "Connecting…")
        #expect(keypad.handle(.connected("Bench")) == nil)
        #expect(showsDigits && keypad.screen.first == "Connected to Bench.")
        #expect(type("9x6").count == 1)
        #expect(keypad.handle(.disconnected("the device disconnected")) == nil)
        #expect(!showsDigits && keypad.screen.first == "Not connected: the device disconnected.")
        #expect(type("d") == [])
        connect()
        #expect(typed == "> ")
    }

    @Test("a result that arrives after the end of its link is not shown")
    mutating func dropsLateResults() {
        connect()
        #expect(type("9x6d") == [.calculate(Calculation(9, .multiply, 6)), .disconnect])
        #expect(keypad.handle(.result(54)) == nil && keypad.screen.first == "Disconnecting…")
        #expect(keypad.handle(.disconnected(nil)) == nil)
        connect()
        #expect(typed == "> ")
    }

    @Test("the user can end an attempt to connect, and quit at any time")
    mutating func ends() {
        #expect(type("cd") == [.connect, .cancel])
        // The link was made in the meantime.
        #expect(keypad.handle(.connected("Bench")) == nil)
        #expect(!showsDigits && keypad.screen.first == "Disconnecting…")
        #expect(type("q") == [.quit])
    }

    @Test(
        "a character that only starts with a digit is not a key",
        arguments: ["1\u{FE0F}\u{20E3}", "5\u{301}", "\u{664}", "\u{FF15}", "/", ":"] as [Character])
    func notDigits(character: Character) {
        #expect(Keypad.Key(character) == nil)
    }
}
