import ArgumentParser
import BlueZ

/// The Bluetooth options of a device command.
struct RadioOptions: ParsableArguments {
    @OptionGroup var own: AdapterOptions

    @Option(
        help: ArgumentHelp(
            "The 6-digit passkey for pairing (example: 012345); default: ask on the terminal.",
            valueName: "NNNNNN"))
    var passkey: String?

    var adapter: String? { own.adapter }

    func validate() throws {
        if passkey != nil, passkeyNumber == nil {
            throw ValidationError(
                "The value of --passkey is not a passkey: expected 6 digits (example: --passkey 012345).")
        }
    }

    /// The name of the option that was given, for messages; nil if none was given.
    var given: String? { adapter != nil ? "--adapter" : passkey != nil ? "--passkey" : nil }

    /// The passkey as a number, 0 to 999 999.
    var passkeyNumber: UInt32? { passkey.flatMap(Self.passkeyNumber) }

    static func passkeyNumber(_ text: String) -> UInt32? {
        text.utf8.count == 6 && text.utf8.allSatisfy(UInt8.isDigit) ? UInt32(text) : nil
    }
}

extension RadioOptions {
    /// Answers pairing requests with `--passkey`; else with prompts on the terminal. Without a terminal it refuses them.
    func pairing(_ console: Console) -> PairingResponder {
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
