import ArgumentParser
import BlueZ
import OTAFirmware

/// The command `gatt notify`, which shows the notifications and indications of a characteristic.
struct GattNotify: GattCommand {
    static let name = "gatt notify"
    static let configuration = CommandConfiguration(
        commandName: "notify", abstract: "Print each notification or indication of a characteristic.",
        discussion: """
            Example: otaflash gatt notify ble:AA:BB:CC:DD:EE:FF 2a19 --count 10

            Each value is one line of hex digits. Without --count and --timeout, the command runs until Ctrl-C.
            """)

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions

    @Option(
        help: ArgumentHelp("Stop after this number of values, 1 or more; default: no limit.", valueName: "n"),
        transform: WholeNumber.in(1...Int.max))
    var count: Int?

    @Option(help: TimeLimit.help("Stop with exit 0 after this time", "no limit"), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("'\(count)' for --count is too small: expected 1 or more.") }
    }

    var words: [String] { [attribute.characteristic] }

    func answer(_ console: Console) async throws -> GattNotificationsAnswer {
        let (attribute, count, timeout) = (attribute, count ?? .max, timeout?.duration ?? .seconds(86400 * 365))
        return try await withDevice(console) { connection in
            let characteristic = try attribute.find(in: connection)
            let notifications = try await connection.pairingIfNeeded {
                try await connection.subscribe(to: characteristic)
            }
            console.note("listening")
            return try await withThrowingTaskGroup(of: [String]?.self) { group in
                group.addTask {
                    var values: [String] = []
                    for await value in notifications {
                        values.append(Hex.encode(value))
                        console.frame("< notified", attribute.characteristic, value)
                        if console.format == .text { try console.printLines([TerminalLine(Hex.encode(value))]) }
                        if values.count >= count { break }
                    }
                    // If the task was not cancelled and the stream ended before `count` values, the link was lost.
                    if values.count < count, !Task.isCancelled { throw try await connection.waitForEnd().error }
                    return values
                }
                group.addTask {
                    try await Task.sleep(for: timeout)
                    return nil
                }
                var values = try await group.next() ?? nil
                group.cancelAll()
                if values == nil { values = try await group.next() ?? nil }
                return GattNotificationsAnswer(values: values ?? [])
            }
        }
    }
}

/// The result of the command `gatt notify`. With `--format text`, each value is printed when it arrives, so `lines` is empty.
struct GattNotificationsAnswer: CommandAnswer {
    /// The values as hex digits.
    let values: [String]

    private enum CodingKeys: CodingKey {
        case values
    }

    var lines: [TerminalLine] { [] }
}
