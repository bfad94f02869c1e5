import ArgumentParser
import BlueZ
import OTAFirmware

/// Reads the value of a characteristic.
struct GattRead: GattVerb {
    static let name = "gatt read"
    static let configuration = CommandConfiguration(commandName: "read", abstract: "Read a characteristic's value.")

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    var words: [String] { [attribute.characteristic] }

    func answer(_ console: Console) async throws -> GattValueAnswer {
        let attribute = attribute
        return try await withDevice(console) { connection in
            let characteristic = try attribute.find(in: connection)
            let value = try await connection.pairingIfNeeded { try await connection.read(characteristic) }
            return GattValueAnswer(value)
        }
    }
}

/// The result of `gatt read`.
struct GattValueAnswer: Answer {
    /// The value as hex digits.
    let value: String
    /// The value as text, if all bytes are printable ASCII.
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
