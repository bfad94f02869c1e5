import ArgumentParser
import BlueZ
import OTAFirmware

/// Writes the value of a characteristic.
struct GattWrite: GattVerb {
    static let name = "gatt write"
    static let configuration = CommandConfiguration(commandName: "write", abstract: "Write a characteristic's value.")

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions

    @Argument(help: ArgumentHelp("The value as hex digits (example: 0100).", valueName: "hex"))
    var value: String

    @Flag(help: "Write without response: the device does not confirm the write.")
    var withoutResponse = false

    @OptionGroup(title: "Output options") var options: OutputOptions

    var words: [String] { [attribute.characteristic, value] }

    func answer(_ console: Console) async throws -> GattWrittenAnswer {
        guard let bytes = Hex.decode(value), bytes.count <= 512 else {
            throw Failure.usage(
                "'\(value)' is not a valid value", hint: "use 0 to 512 bytes as hex digits, such as 0100")
        }
        let (attribute, withoutResponse) = (attribute, withoutResponse)
        return try await withDevice(console) { connection in
            let characteristic = try attribute.find(in: connection)
            try await connection.pairingIfNeeded {
                if withoutResponse {
                    try await connection.send([bytes], to: characteristic)
                } else {
                    try await connection.write(bytes, to: characteristic)
                }
            }
            return GattWrittenAnswer(bytes: bytes.count)
        }
    }
}

/// The result of `gatt write`.
struct GattWrittenAnswer: Answer {
    let bytes: Int

    private enum CodingKeys: CodingKey {
        case bytes
    }

    var lines: [TerminalLine] { ["\(Figures.bytes(bytes)) written."] }
}
