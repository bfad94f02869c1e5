import ArgumentParser

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
