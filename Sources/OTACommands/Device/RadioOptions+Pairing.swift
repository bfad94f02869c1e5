import BlueZ

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
