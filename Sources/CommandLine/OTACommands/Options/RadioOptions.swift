package import ArgumentParser
import BlueZ
import Glibc
import OTALinks

/// The option with the passkey for a device that requires pairing.
struct PasskeyOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Require an authenticated Bluetooth link; pair with this passkey if there is no bond (example: 012345).",
            discussion:
                "Default: no requirement; if the device demands pairing, otaflash asks for the passkey on the terminal.",
            valueName: "NNNNNN"))
    var passkey: String?

    @Flag(
        help: ArgumentHelp(
            "Require a Bluetooth bond; without a bond, pair and ask for the passkey.",
            discussion: "An existing bond is accepted, unless otaflash has made it without authentication."))
    var requireBond = false

    func validate() throws {
        if passkey != nil, passkeyNumber == nil {
            throw ValidationError(
                "The value of --passkey is not a passkey: expected 6 digits (example: --passkey 012345).")
        }
    }

    /// The security that these options require of a link.
    var requirement: LinkRequirement { passkey != nil ? .authentication : requireBond ? .bond : .none }

    /// The first of these options that the user gave; nil if the user gave none.
    var given: String? { passkey != nil ? "--passkey" : requireBond ? "--require-bond" : nil }

    /// These options as words of the command line. Hints repeat them. They do not contain the passkey, because a hint can be in a log.
    var words: [String] { (passkey == nil ? [] : ["--passkey", "NNNNNN"]) + (requireBond ? ["--require-bond"] : []) }

    /// The passkey as a number from 0 to 999 999; nil if the option was not given, or if its value is not a passkey.
    var passkeyNumber: UInt32? { passkey.flatMap(Self.passkeyNumber) }

    static func passkeyNumber(_ text: String) -> UInt32? {
        text.utf8.count == 6 && text.utf8.allSatisfy(UInt8.isDigit) ? UInt32(text) : nil
    }
}

/// The Bluetooth options of a device command.
struct RadioOptions: ParsableArguments {
    @OptionGroup var own: AdapterOptions
    @OptionGroup var pairing: PasskeyOptions

    init() {}

    /// Creates the options from values, not from a command line.
    init(adapter: String?, _ pairing: PasskeyOptions) {
        own = AdapterOptions()
        own.adapter = adapter
        self.pairing = pairing
    }

    var adapter: String? { own.adapter }

    /// The first Bluetooth option that the user gave, for error messages; nil if the user gave none.
    var given: String? { adapter != nil ? "--adapter" : pairing.given }
}

extension PasskeyOptions {
    /// Returns the responder to pairing requests. The responder uses the passkey of `--passkey`. Without `--passkey`, it prompts on the
    /// terminal. If there is no terminal, it refuses each pairing that needs a passkey, and accepts other pairings.
    func responder(_ console: Console) -> PairingResponder {
        if let number = passkeyNumber { return .passkey(number) }
        guard TerminalQuestion.canBeAsked else { return .unattended }
        return PairingResponder(
            passkey: { device in
                let prompt: TerminalLine =
                    "\(Self.title(device)) requests pairing. Enter the six digits that it shows: "
                while let text = await TerminalQuestion.ask(prompt) {
                    if text.isEmpty { return nil }
                    if let number = Self.passkeyNumber(text) { return number }
                    console.note("a passkey has six digits; an empty line refuses the pairing")
                }
                return nil
            },
            confirmation: { device, number in
                let digits = String(number)
                let shown = String(repeating: "0", count: max(0, 6 - digits.count)) + digits
                let prompt: TerminalLine = "\(Self.title(device)) requests pairing. Does it show \(shown)? [y/N] "
                let answer = await TerminalQuestion.ask(prompt) ?? ""
                return ["y", "yes"].contains(answer.lowercased())
            })
    }

    private static func title(_ device: BluetoothDevice) -> String {
        device.name.map { "\($0) (ble:\(device.address))" } ?? "ble:\(device.address)"
    }
}

/// The option that selects a Bluetooth adapter.
package struct AdapterOptions: ParsableArguments {
    package static let help = "The Bluetooth adapter (example: hci0)"
    package static let usual = "the first that is switched on"
    /// The end of the help of `--rssi`, after a word such as "omit".
    package static let weakSignals =
        "devices with a weaker signal than this level, -127 to 20 dBm (example: -60)."

    @Option(
        help: ArgumentHelp(
            "\(help); default: \(usual).", valueName: "hciN"),
        completion: Completions.adapters)
    var adapter: String?

    package init() {}

    package func validate() throws { if let adapter { try Self.check(adapter) } }

    /// Refuses a text that is not the name of an adapter.
    static func check(_ adapter: String) throws(ValidationError) {
        let number = adapter.utf8.dropFirst(3)
        let isNumber = !number.isEmpty && number.count < 6 && number.allSatisfy(UInt8.isDigit)
        guard adapter.hasPrefix("hci"), isNumber else {
            throw ValidationError("'\(adapter)' is not the name of an adapter (example: --adapter hci0).")
        }
    }
}

/// The option that selects several Bluetooth adapters.
package struct AdapterList: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "\(AdapterOptions.help); repeatable. Default: \(AdapterOptions.usual).",
            discussion:
                "Repeat the option to use several adapters for several devices: each device is updated over the adapter that "
                + "receives the strongest signal from it.",
            valueName: "hciN"),
        completion: Completions.adapters)
    package var adapter: [String] = []

    package init() {}

    /// Refuses a text that is not the name of an adapter, and an adapter that is given twice.
    package func validate() throws {
        for (index, name) in adapter.enumerated() {
            try AdapterOptions.check(name)
            if adapter[..<index].contains(name) { throw ValidationError("--adapter \(name) is given twice.") }
        }
    }
}

/// The option with the minimum signal strength of the devices that `--all` finds.
package struct SignalOptions: ParsableArguments {
    @Option(
        parsing: .unconditional,
        help: ArgumentHelp(
            "With --all: omit \(AdapterOptions.weakSignals)", valueName: "dBm"),
        transform: WholeNumber.in(-127...20))
    package var rssi: Int?

    package init() {}
}

extension UInt8 {
    /// Returns true for an ASCII digit.
    static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
}

/// Prompts the user on the terminal while other tasks run. The prompt is written to stderr, and the input is read from stdin.
enum TerminalQuestion {
    /// True if both stdin and stderr are terminals.
    static var canBeAsked: Bool { StandardStream.input.isTerminal && StandardStream.error.isTerminal }

    /// Shows a prompt and waits for a line of input.
    ///
    /// - Returns: the typed line without its line feed; nil if the task was cancelled or the terminal was closed.
    static func ask(_ prompt: TerminalLine) async -> String? {
        // Discard input that was typed before the prompt.
        tcflush(StandardStream.input.rawValue, TCIFLUSH)
        try? StandardStream.error.writer.write([.startOfLine, .part(prompt)])
        // A terminal is readable when a complete line was typed, so the read does not block. The loop polls every 50 ms, because a blocking
        // wait for input would not end when the task is cancelled.
        while !Task.isCancelled {
            var file = pollfd(fd: StandardStream.input.rawValue, events: Int16(POLLIN), revents: 0)
            if poll(&file, 1, 0) > 0 { return line() }
            try? await Task.sleep(for: .milliseconds(50))
        }
        try? StandardStream.error.writer.write(.line(""))
        return nil
    }

    private static func line() -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(StandardStream.input.rawValue, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
