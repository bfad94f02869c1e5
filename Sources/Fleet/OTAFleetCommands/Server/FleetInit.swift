import ArgumentParser
import NATS
import OTACommands
import OTAFleet
import OTANATSStore
import OTASigning
import OTAStore
import SystemPackage

/// The command `fleet init`, which writes the configuration of a NATS server, or creates the store on a server.
struct FleetInit: Command {
    static let name = "fleet init"
    static let configuration = CommandConfiguration(
        commandName: "init", abstract: "Prepare a NATS server for a fleet.",
        discussion: """
            Example: otaflash fleet init --config nats.conf --gateway desk
                     nats-server -c nats.conf &
                     otaflash fleet init --server nats://127.0.0.1:4222 \\
                       --credentials operator.nk

            init performs one of two steps. Start the server between them.

            Step 1 (--config): init writes the configuration of the server. In the same folder, it creates the credentials of each \
            user, as files with an NKey, the key of a NATS user: operator.nk, controller.nk, and gateway-NAME.nk for each --gateway. \
            With --force, a user whose file exists keeps these credentials. The configuration permits only the gateways of --gateway, so name all \
            of them, also if you write it again with --force. It has two accounts, so that a gateway cannot write the records of \
            operators.

            Step 2 (--server or $\(ServerOptions.variable)): init creates the store on the running server. It first checks the \
            server as 'otaflash fleet check' does, but a missing store is no failure. If the server is not suitable, init \
            changes nothing, and ends with the exit status of this check. If the store already exists, nothing changes.
            """)

    @Option(
        help: ArgumentHelp(
            "Write the configuration of the server to this file (step 1).",
            discussion: "Not together with --server. Default: create the store (step 2).", valueName: "file"),
        completion: .file())
    var config: String?

    @Option(
        name: .customLong("gateway"),
        help: ArgumentHelp(
            "With --config: the name of a gateway; repeatable.",
            discussion: "The name is as in 'otaflash gateway run --name'. Default: no gateway.", valueName: "name"))
    var gateways: [String] = []

    @Option(
        help: ArgumentHelp(
            "With --config: the address of the server.",
            discussion:
                "The default accepts only connections from this machine. For gateways on other machines, give another address, "
                + "and enable the tls line of the written file for an encrypted connection.",
            valueName: "host:port"))
    var listen = "127.0.0.1:4222"

    @Option(
        help: ArgumentHelp(
            "With --config: the folder of the records.",
            discussion: "The user that runs nats-server must be able to write to this folder.", valueName: "folder"))
    var storeDir = "/var/lib/nats"

    @Flag(help: "With --config: replace an existing configuration, and keep the existing credentials.")
    var force = false

    @Option(
        help: ArgumentHelp(
            "In step 2: the number of servers that store each record: 1, 3 or 5; default: 1.", valueName: "number"),
        transform: { text in
            guard let number = Int(text), [1, 3, 5].contains(number) else {
                throw ValidationError("expected 1, 3 or 5.")
            }
            return number
        })
    var replicas = 1

    @OptionGroup var server: ServerOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func validate() throws {
        if config != nil, !server.server.isEmpty {
            throw ValidationError(
                "--config and --server cannot be used together: the server must run with the configuration before the store is created."
            )
        }
        if config == nil, !gateways.isEmpty { throw ValidationError("--gateway needs --config.") }
    }

    func answer(_ console: Console) async throws -> FleetInitAnswer {
        if let config { return FleetInitAnswer(try write(FilePath(config))) }
        try server.require(or: "to write a configuration: --config nats.conf --gateway NAME")
        let connection = try server.connection()
        return try await server.withClient { client in
            let check = try await ServerCheck.run(connection, replicas: replicas)
            var answer = FleetCheckAnswer(check, addresses: server.addresses)
            if answer.failure == nil {
                let store = try NATSStore(client)
                try await store.create(replicas: replicas)
                await answer.examine(store)
            }
            return FleetInitAnswer(answer)
        }
    }

    /// Writes the configuration, and the credentials that do not exist.
    private func write(_ file: FilePath) throws -> FleetInitAnswer.Configuration {
        let isReplaced = (try? file.stat()) != nil
        let output = try configurationFile(file)
        let folder = file.removingLastComponent()
        var users: [FleetInitAnswer.User] = []
        func user(_ role: String, _ name: String, _ gateway: String? = nil) throws -> ServerConfiguration.User {
            let path = folder.appending("\(name).nk")
            let isKept = (try? path.stat()) != nil
            let key = try Credentials.publicKey(at: path)
            users.append(.init(role: role, gateway: gateway, key: key, credentials: path.string, isKept: isKept))
            return .init(name: gateway ?? name, key: key, inboxPrefix: NATSOptions.inboxPrefix(ofUser: key))
        }
        let names = try gateways.map { try GatewayName(reading: $0).text }
        guard Set(names).count == names.count else {
            throw Failure.usage("a gateway is given twice", hint: "give each name once")
        }
        let all = (["operator", "controller"] + names.map { "gateway-\($0)" }).map { folder.appending("\($0).nk") }
        if !force, let existing = all.first(where: { (try? $0.stat()) != nil }) { throw foreign(existing) }
        let text = ServerConfiguration(
            listen: listen, storeFolder: storeDir, operators: [try user("operator", "operator")],
            controllers: [try user("controller", "controller")],
            gateways: try names.map { try user("gateway", "gateway-\($0)", $0) }
        ).text
        try Array(text.utf8).withUnsafeBytes { try output.write($0, at: 0) }
        try output.commit()
        return .init(file: file.string, listen: listen, users: users, isReplaced: isReplaced)
    }

    /// Credentials without a configuration can be from somebody else, who then has a user of the new server.
    private func foreign(_ credentials: FilePath) -> Failure {
        Failure(
            SigningError.Code.outputExists.rawValue, .cannotCreate, "the credentials \(credentials) already exist",
            hint: "if you made them, keep them: --force; otherwise remove them: rm \(credentials.string.shellQuoted)")
    }

    private func configurationFile(_ file: FilePath) throws -> OutputFile {
        do throws(SigningError) { return try OutputFile(file, replaces: force) } catch {
            guard error.code == SigningError.Code.outputExists.rawValue else { throw error }
            throw Failure(
                error.code, .cannotCreate, "the configuration \(file) already exists",
                hint: "replace it, with the names of all gateways: otaflash fleet init --config \(file) --force "
                    + "--gateway NAME; or write another file: --config FILE")
        }
    }
}

/// The files with the credentials of users: each contains an NKey seed.
private enum Credentials {
    /// Returns the public key of the seed in a file, which is created if it does not exist.
    static func publicKey(at path: FilePath) throws -> String {
        do throws(KeyError) {
            _ = try KeyFile.secretText(at: path, of: "these credentials")
        } catch {
            guard error.code == .noSuchFile else { throw error }
            guard let user = NKey.makeUser() else {
                throw Failure("crypto-failed", .fault, "libcrypto created no key", hint: "run the command again")
            }
            let file = try OutputFile(path, replaces: false, permissions: .ownerReadWrite)
            try Array("\(user.seed)\n".utf8).withUnsafeBytes { try file.write($0, at: 0) }
            try file.commit()
            return user.publicKey
        }
        var options = NATSOptions(servers: [])
        return try options.useCredentials(inFile: path.string)
    }
}

/// The result of `fleet init`.
struct FleetInitAnswer: CommandAnswer {
    struct User: Encodable, Sendable {
        let role: String
        let gateway: String?
        let key, credentials: String
        /// True if the file existed before.
        let isKept: Bool

        private enum CodingKeys: CodingKey { case role, gateway, key, credentials }
    }
    struct Configuration: Encodable, Sendable {
        let file, listen: String
        let users: [User]
        /// True if a server can already run with an earlier version of the file.
        let isReplaced: Bool

        private enum CodingKeys: CodingKey { case file, listen, users }
    }

    private let configuration: Configuration?
    private let check: FleetCheckAnswer?

    init(_ configuration: Configuration) { (self.configuration, check) = (configuration, nil) }
    init(_ check: FleetCheckAnswer) { (configuration, self.check) = (nil, check) }

    var failure: Failure? { check?.failure }

    private enum CodingKeys: CodingKey { case configuration }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(configuration, forKey: .configuration)
        try check?.encode(to: encoder)
    }

    var lines: [TerminalLine] {
        guard let configuration else { return check?.lines ?? [] }
        let rows = configuration.users.map {
            ($0.gateway.map { "gateway \($0)" } ?? $0.role, $0.credentials + ($0.isKept ? " (existing)" : ""))
        }
        let start = "start the server: nats-server -c \(configuration.file)"
        let create =
            "otaflash fleet init --server nats://\(configuration.listen) --credentials \(configuration.users[0].credentials)"
        let next: [TerminalLine] =
            configuration.isReplaced
            ? [
                "next: reload the server: nats-server --signal reload", "if it does not run yet, \(start)",
                "then: \(create)",
            ]
            : ["next: \(start)", "then: \(create)"]
        return TextTable.pairs([("configuration", configuration.file)] + rows) + [""] + next
    }
}
