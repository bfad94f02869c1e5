import ArgumentParser

/// The option that selects a Bluetooth adapter.
struct AdapterOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The Bluetooth adapter (example: hci0); default: the first one switched on.", valueName: "hciN"))
    var adapter: String?

    func validate() throws {
        guard let adapter else { return }
        let number = adapter.utf8.dropFirst(3)
        let isNumber = !number.isEmpty && number.count < 6 && number.allSatisfy(UInt8.isDigit)
        guard adapter.hasPrefix("hci"), isNumber else {
            throw ValidationError("'\(adapter)' is not the name of an adapter (example: --adapter hci0).")
        }
    }
}

extension UInt8 {
    /// Returns true for an ASCII digit.
    static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
}
