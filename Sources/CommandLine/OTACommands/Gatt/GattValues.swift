import ArgumentParser
import BlueZ
import OTAFirmware

/// The command `gatt read`, which reads the value of a characteristic.
struct GattRead: GattCommand {
    static let name = "gatt read"
    static let configuration = CommandConfiguration(
        commandName: "read", abstract: "Read the value of a characteristic.",
        discussion: "Example: otaflash gatt read ble:AA:BB:CC:DD:EE:FF 2a19")

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var words: [String] { [attribute.characteristic] }

    func answer(_ console: Console) async throws -> GattValueAnswer {
        let attribute = attribute
        return try await withDevice(console) { connection in
            let characteristic = try attribute.find(in: connection)
            let value = try await connection.pairingIfNeeded { try await connection.read(characteristic) }
            console.frame("< value", attribute.characteristic, value)
            return GattValueAnswer(value)
        }
    }
}

/// The result of the command `gatt read`.
struct GattValueAnswer: CommandAnswer {
    /// The value as hex digits.
    let value: String
    /// The value as text; nil if the value is empty or contains bytes that are not printable ASCII.
    let string: String?
    let lines: [TerminalLine]

    private enum CodingKeys: CodingKey {
        case value, string
    }

    init(_ bytes: [UInt8]) {
        value = Hex.encode(bytes)
        let isText = !bytes.isEmpty && bytes.allSatisfy { 0x20...0x7E ~= $0 }
        string = isText ? String(decoding: bytes, as: UTF8.self) : nil
        lines = [TerminalLine(string.map { "\(Hex.encode(bytes))  \"\($0)\"" } ?? Hex.encode(bytes))]
    }
}

/// The command `gatt write`, which writes the value of a characteristic.
struct GattWrite: GattCommand {
    static let name = "gatt write"
    static let configuration = CommandConfiguration(
        commandName: "write", abstract: "Write the value of a characteristic.",
        discussion: "Example: otaflash gatt write ble:AA:BB:CC:DD:EE:FF 2a06 01")

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions

    @Argument(help: ArgumentHelp("The value, 0 to 512 bytes as hex digits (example: 0100).", valueName: "hex"))
    var value: String

    @Flag(help: "Write without response; default: write with response, and wait for it.")
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
            console.frame(withoutResponse ? "> send" : "> write", attribute.characteristic, bytes)
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

/// The result of the command `gatt write`.
struct GattWrittenAnswer: CommandAnswer {
    let bytes: Int

    private enum CodingKeys: CodingKey {
        case bytes
    }

    var lines: [TerminalLine] { ["\(Figures.bytes(bytes)) written."] }
}
