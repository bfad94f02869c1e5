import BlueZ

extension RadioOptions {
    /// Answers a device that demands to be paired: by `--passkey`, else by the person at the terminal, else by nobody.
    func pairing(_ console: Console) -> PairingResponder {
        if let number = passkeyNumber { return .passkey(number) }
        guard TerminalQuestion.canBeAsked else { return .unattended }
        return PairingResponder(
            passkey: { device in
                let prompt: TerminalLine = "\(Self.title(device)) wants to be paired. The six digits that it shows: "
                while let text = await TerminalQuestion.ask(prompt) {
                    if text.isEmpty { return nil }
                    if let number = Self.passkeyNumber(text) { return number }
                    console.note("a passkey has six digits; an empty line refuses")
                }
                return nil
            },
            confirmation: { device, number in
                let digits = String(number)
                let shown = String(repeating: "0", count: max(0, 6 - digits.count)) + digits
                let prompt: TerminalLine = "\(Self.title(device)) wants to be paired. Does it show \(shown)? [y/N] "
                let answer = await TerminalQuestion.ask(prompt) ?? ""
                return ["y", "yes"].contains(answer.lowercased())
            })
    }

    private static func title(_ device: BluetoothDevice) -> String {
        device.name.map { "\($0) (ble:\(device.address))" } ?? "ble:\(device.address)"
    }
}
