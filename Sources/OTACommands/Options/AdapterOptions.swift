import ArgumentParser

struct AdapterOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The Bluetooth adapter; else the first that is switched on.", valueName: "hciN"))
    var adapter: String?

    func validate() throws {
        guard let adapter else { return }
        let number = adapter.utf8.dropFirst(3)
        let isNumber = !number.isEmpty && number.count < 6 && number.allSatisfy(UInt8.isDigit)
        guard adapter.hasPrefix("hci"), isNumber else {
            throw ValidationError("'\(adapter)' is not an adapter: type --adapter hci0, for example.")
        }
    }
}

extension UInt8 {
    /// Of an ASCII character.
    static func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
}
