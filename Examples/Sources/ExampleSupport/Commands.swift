public import ArgumentParser
public import BlueZ

public struct AdapterOption: ParsableArguments, Sendable {
    @Option(help: "The adapter, such as hci1. Default: the first powered adapter.")
    public var adapter: String?

    public init() {}
}

public struct NameOption: ParsableArguments, Sendable {
    @Option(help: "The advertised name, 1 to 29 bytes. Default: the kind of the peripheral.")
    public var name: String?

    public init() {}

    public func validate() throws {
        guard name.map({ (1...29).contains($0.utf8.count) }) ?? true else {
            throw ValidationError("--name: the name must have 1 to 29 bytes.")
        }
    }
}

extension BluetoothAddress: @retroactive ExpressibleByArgument {
    public init?(argument: String) { self.init(argument) }
}

/// Runs `body` with a client of bluetoothd. SIGINT, SIGTERM, SIGHUP and SIGPIPE cancel `body`, so that no connection and no advertisement
/// remains (``untilSignal(_:)``).
///
/// - Parameter interrupted: the exit code after a signal.
public func withClient(
    interrupted: ExitCode = ExitCode(130), _ body: @escaping @Sendable (BlueZClient) async throws -> Void
) async throws {
    let result: Void? = try await untilSignal {
        do {
            let client = try await BlueZClient.open()
            try await body(client)
            await client.close()
        } catch let error as BlueZError { throw Failure(error) }
    }
    if result == nil { throw interrupted }
}
