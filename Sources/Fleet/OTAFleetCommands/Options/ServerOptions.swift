import ArgumentParser
package import NATS
import OTAClient
package import OTACommands
import OTANATSStore
import OTASigning
import OTAStore
import SystemPackage

/// The options for a connection to NATS servers.
struct ServerOptions: ParsableArguments {
    static let variable = "OTAFLASH_FLEET_SERVER"
    private static let credentialsVariable = "OTAFLASH_FLEET_CREDENTIALS"

    @Option(
        help: ArgumentHelp(
            "The NATS server with the store: nats://HOST:PORT or tls://HOST:PORT; repeatable.",
            discussion:
                "Repeat the option, or use commas, for the servers of a cluster. tls:// is for an encrypted connection. Default: "
                + "the addresses in $\(variable).",
            valueName: "url"))
    var server: [String] = []

    @Option(
        help: ArgumentHelp(
            "This user's credentials for the NATS server: an NKey seed or a .creds file.",
            discussion:
                "Only the owner may have access to the file. Default: the file in $\(credentialsVariable); if it is not set, no "
                + "credentials.",
            valueName: "file"),
        completion: .file())
    var credentials: String?

    @Option(
        name: .customLong("ca"),
        help: ArgumentHelp(
            "For tls://, the CA certificate of the server (PEM).", discussion: "Default: the CAs of this machine.",
            valueName: "file"),
        completion: .file())
    var authority: String?

    var isGiven: Bool { !server.isEmpty || Environment.value(Self.variable) != nil }

    /// The file of `--credentials`, or of the environment variable if the option was not given; nil: no credentials.
    private var credentialsFile: String? { credentials ?? Environment.value(Self.credentialsVariable) }

    /// The addresses of `--server`, or of the environment variable if the option was not given.
    var addresses: [String] {
        let given = server.isEmpty ? Environment.value(Self.variable).map { [$0] } ?? [] : server
        return given.flatMap { $0.split(separator: ",").map(String.init) }
    }

    /// Checks that an address was given.
    ///
    /// - Parameter other: another possible next step, for the hint.
    /// - Throws: `Failure`.
    func require(or other: String? = nil) throws(Failure) {
        guard !isGiven else { return }
        let give = "give the address of the NATS server: --server nats://HOST:4222"
        throw .usage("the server is missing", hint: ([give] + (other.map { [$0] } ?? [])).joined(separator: "; or "))
    }

    /// Returns the options of a connection.
    ///
    /// - Throws: `KeyError` if the file of the credentials cannot be read or other users have access to it; `NATSError`; `Failure`.
    func connection() throws -> NATSOptions {
        var options = NATSOptions(servers: addresses)
        if let authority {
            // libnats reports a file without certificates only as a failed TLS connection.
            _ = try FileReader.contents(of: authority)
            options.certificateAuthority = authority
        }
        if let file = credentialsFile {
            do throws(KeyError) { _ = try KeyFile.secretText(at: FilePath(file), of: "these credentials") } catch {
                guard error.code == .noSuchFile else { throw error }
                let source = credentials == nil ? "$\(Self.credentialsVariable)" : "--credentials"
                throw KeyError(
                    .noSuchFile, "the credentials do not exist: \(error.context)",
                    hint: "check the path of \(source); 'otaflash fleet init --config FILE' creates operator.nk, "
                        + "controller.nk and gateway-NAME.nk beside FILE")
            }
            try options.useCredentials(inFile: file)
        }
        return options
    }

    /// Connects to the server, passes the connection to `body`, and closes the connection after it.
    ///
    /// - Parameter unreachable: if no server can be reached, this closure is called and the connection is tried again every 2 s; nil:
    ///   the method then throws.
    /// - Throws: the errors of ``connection()`` and of `body`; `NATSError`.
    func withClient<Result: Sendable>(
        unreachable: ((NATSError) -> Void)? = nil, _ body: (NATSClient) async throws -> Result
    ) async throws -> Result {
        try await open(unreachable).closing(body)
    }

    private func open(_ unreachable: ((NATSError) -> Void)?) async throws -> NATSClient {
        let options = try connection()
        while true {
            do throws(NATSError) {
                return try await NATSClient.open(options)
            } catch {
                // A proxy whose server does not run yet can end the connection before the server's first message.
                guard let unreachable, [.connectionFailed, .noServerInformation].contains(error.code) else {
                    throw explained(error)
                }
                unreachable(error)
            }
            try await Task.sleep(for: .seconds(2))
        }
    }

    /// Returns the error of a connection, with a hint that depends on the given options.
    private func explained(_ error: NATSError) -> any Error {
        let known = StoreError(error)
        switch error.code {
        case .authorizationFailed:
            guard let file = credentialsFile else { return error }
            return StoreError(
                known.code, "\(known.context), with the credentials \(file)",
                hint: "check that the server's configuration has the user of this file, and load it again: nats-server "
                    + "--signal reload; or give the credentials of another user: --credentials FILE", cause: known.cause
            )
        // This is the text of libnats for a server whose first message does not offer TLS.
        case .tlsFailed where error.cause?.contains("not available") == true:
            return StoreError(
                known.code, "the NATS server offers no TLS: \(error.message)",
                hint: "enable the line tls in the server's configuration, and restart the server; or, for a connection "
                    + "without encryption, use the address nats://HOST:PORT", cause: error.cause)
        default: return error
        }
    }
}

extension NATSError: FailureCause {
    package var failure: Failure {
        // The only malformed arguments of a connection are the addresses and the files of the options.
        code == .invalidArguments
            ? .usage(
                cause.map { "\(message): \($0)" } ?? message, hint: "check --server, --credentials and --ca")
            : StoreError(self).failure
    }
}
