import ArgumentParser

@main
struct BLEUART: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-uart", abstract: "Exchange texts and an image over the Nordic UART service.",
        discussion: """
            ble-uart serve             be a peripheral
            ble-uart                   list the devices in range, and connect to one
            ble-uart image photo.png   receive the image of a peripheral
            """,
        subcommands: [Connect.self, Image.self, Serve.self], defaultSubcommand: Connect.self)
}

/// Returns the result of `body`. Nil: `body` took more than this time, and was cancelled.
func atMost<Result: Sendable>(
    _ time: Duration, _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result? {
    try await withThrowingTaskGroup(of: Result?.self) { group in
        defer { group.cancelAll() }
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: time)
            return nil
        }
        return try await group.next() ?? nil
    }
}
