import ArgumentParser

/// How this machine speaks Bluetooth with a device.
struct RadioOptions: ParsableArguments {
    @OptionGroup var own: AdapterOptions

    @Option(
        help: ArgumentHelp(
            "The six digits of a device that is paired by a passkey; asked for on a terminal when it is left out.",
            valueName: "NNNNNN"))
    var passkey: String?

    var adapter: String? { own.adapter }

    func validate() throws {
        if passkey != nil, passkeyNumber == nil {
            throw ValidationError("A passkey has six digits: --passkey 012345.")
        }
    }

    /// The option that was given, for messages.
    var given: String? { adapter != nil ? "--adapter" : passkey != nil ? "--passkey" : nil }

    /// 0 to 999 999.
    var passkeyNumber: UInt32? { passkey.flatMap(Self.passkeyNumber) }

    static func passkeyNumber(_ text: String) -> UInt32? {
        text.utf8.count == 6 && text.utf8.allSatisfy(UInt8.isDigit) ? UInt32(text) : nil
    }
}
