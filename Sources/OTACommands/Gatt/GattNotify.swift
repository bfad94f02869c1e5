import ArgumentParser
import BlueZ
import OTAFirmware

struct GattNotify: GattVerb {
    static let name = "gatt notify"
    static let configuration = CommandConfiguration(
        commandName: "notify", abstract: "Show what a characteristic notifies or indicates, a line each.")

    @OptionGroup var target: GattOptions
    @OptionGroup var attribute: CharacteristicOptions

    @Option(help: ArgumentHelp("End after so many values.", valueName: "n"))
    var count: Int?

    @Option(help: TimeLimit.help("By default there is no limit."), transform: TimeLimit.init(option:))
    var timeout: TimeLimit?

    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("'--count' is a number above 0.") }
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
                        if console.format == .text { try console.printLines([TerminalLine(Hex.encode(value))]) }
                        if values.count >= count { break }
                    }
                    // When the link goes, that is what is told.
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

/// As text they were shown as they came.
struct GattNotificationsAnswer: Answer {
    /// Hex.
    let values: [String]

    private enum CodingKeys: CodingKey {
        case values
    }

    var lines: [TerminalLine] { [] }
}
