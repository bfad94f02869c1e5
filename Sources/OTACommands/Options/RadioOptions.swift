import ArgumentParser

/// How this machine speaks Bluetooth.
struct RadioOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The Bluetooth adapter; else the first that is switched on.", valueName: "hciN"))
    var adapter: String?

    @Option(
        help: ArgumentHelp(
            "The six digits of a device that is paired by a passkey; asked for on a terminal when it is left out.",
            valueName: "NNNNNN"))
    var passkey: String?

    func validate() throws {
        if let adapter, !Self.isAdapter(adapter) {
            throw ValidationError("'\(adapter)' is not an adapter: type --adapter hci0, for example.")
        }
        if passkey != nil, passkeyNumber == nil {
            throw ValidationError("A passkey has six digits: --passkey 012345.")
        }
    }

    /// The option that was given, for messages.
    var given: String? { adapter != nil ? "--adapter" : passkey != nil ? "--passkey" : nil }

    /// 0 to 999 999.
    var passkeyNumber: UInt32? {
        guard let passkey, passkey.utf8.count == 6, passkey.utf8.allSatisfy(Self.isDigit) else { return nil }
        return UInt32(passkey)
    }

    private static func isAdapter(_ name: String) -> Bool {
        let number = name.utf8.dropFirst(3)
        return name.hasPrefix("hci") && !number.isEmpty && number.count < 6 && number.allSatisfy(isDigit)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
}
