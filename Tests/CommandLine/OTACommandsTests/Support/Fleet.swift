import Glibc
import NATSTestSupport
import OTATestSupport
import SystemPackage
import Testing

/// A fleet of virtual devices with the product `demo`, an operator's key, and a published release of version 1.1.0.
struct Fleet {
    /// The user of the NATS server that runs a command. The raw value is the name of the file with the credentials.
    enum User: String {
        case `operator` = "operator.nk"
        case controller = "controller.nk"
        case gateway = "gateway-desk.nk"
    }

    let sandbox: Sandbox
    let release: String
    /// The address of the NATS server with the store; nil: the store is a file.
    let server: String?
    /// Whether the server requires the credentials of ``User``.
    let hasUsers: Bool

    /// - Parameters:
    ///   - sandbox: a sandbox with the credentials of the users; nil: the server requires no credentials.
    ///   - server: the address of the NATS server with the store; nil: the store is a file.
    ///   - parameters: more parameters in the addresses of the virtual devices.
    ///   - options: more options of `simulate create`.
    init(
        in sandbox: Sandbox? = nil, devices: Int, server: String? = nil, pace: String = "virtual",
        parameters: String = "", _ options: String...
    ) async throws {
        hasUsers = sandbox != nil
        let sandbox = try sandbox ?? Sandbox()
        (self.sandbox, self.server) = (sandbox, server)
        try await sandbox.release()
        for key in ["ops", "controller"] { #expect(try await sandbox.run("keygen", key).exit == 0) }
        for number in 1...devices {
            let created = try await sandbox.run(
                ["simulate", "create", "d\(number)", "--product", "demo", "--version", "1.0.0", "--trust"]
                    + ["release.pub.pem"] + options)
            #expect(created.exit == 0, "\(created.err)")
        }
        let list = (1...devices).map { "sim:d\($0)?pace=\(pace)&seed=\($0)\(parameters)\n" }.joined()
        try sandbox.write("list", Array(list.utf8))
        let published = try await sandbox.run(
            "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--format", "json",
            env: Self.environment(server, hasUsers ? .operator : nil))
        #expect(published.exit == 0, "\(published.err)")
        release = try #require(try published.json().release?.id?.string)
    }

    private static func environment(_ server: String?, _ user: User?) -> [String: String] {
        var variables = server.map { ["OTAFLASH_FLEET_SERVER": $0] } ?? [:]
        if let user { variables["OTAFLASH_FLEET_CREDENTIALS"] = user.rawValue }
        return variables
    }

    /// Runs a command.
    func run(_ words: [String], as user: User = .operator) async throws -> Run {
        try await sandbox.run(words, env: Self.environment(server, hasUsers ? user : nil))
    }

    @discardableResult
    func create(_ name: String, _ options: String...) async throws -> Run {
        let run = try await run(
            ["rollout", "create", name, "--release", release, "--select", "product=demo,running=<1.1.0", "--key"]
                + ["ops.pem", "--format", "json"] + options
                + (server == nil ? [] : ["--controller", "controller.pub.pem"]))
        #expect(run.exit == 0, "\(run.err)")
        return run
    }

    func change(_ command: String, _ name: String) async throws -> Run {
        try await run(["rollout", command, name, "--key", "ops.pem", "--format", "json"])
    }

    func status(_ name: String, _ options: String...) async throws -> Run {
        try await run(["rollout", "status", name, "--operators", "ops.pub.pem", "--format", "json"] + options)
    }

    func json(_ words: String...) async throws -> JSONValue {
        try await run(words + ["--format", "json"]).json()
    }

    /// The number of devices in a state.
    func count(_ state: String) async throws -> Int {
        try await json("fleet", "devices", "--state", state).devices?.array?.count ?? -1
    }

    private static let words = [
        "gateway", "run", "--name", "desk", "--device-file", "list", "--trust", "release.pub.pem", "--operators",
        "ops.pub.pem",
    ]

    func gateway(_ options: [String] = []) async throws -> Run { try await run(Self.words + options, as: .gateway) }

    /// Runs a gateway during `body`, and then stops it with SIGTERM. If the store is on a server, a controller runs, too.
    func withGateway<Result: Sendable>(
        _ options: String..., body: () async throws -> Result
    ) async throws -> Result {
        guard server != nil else { return try await withGatewayAlone(options, body).result }
        return try await withController { try await withGatewayAlone(options, body).result }
    }

    /// Runs a gateway during `body`, and then stops it with SIGTERM.
    func withGatewayAlone<Result: Sendable>(
        _ options: [String] = [], _ body: () async throws -> Result
    ) async throws -> (result: Result, gateway: Run) {
        let (result, run) = try await withProcess(
            Self.words + options, "gateway", as: .gateway, ready: "state/fleet/gateway-desk/lock", body)
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().gateway?.string == "desk")
        return (result, run)
    }

    /// Runs a controller during `body`, and then stops it with SIGTERM.
    ///
    /// - Parameter state: the name of the state folder. Two controllers on one machine need two state folders.
    func withController<Result: Sendable>(
        state: String = "state", _ body: () async throws -> Result
    ) async throws -> Result {
        let words = ["fleet", "run", "--key", "controller.pem", "--operators", "ops.pub.pem"]
        let (result, run) = try await withProcess(words, "controller-\(state)", as: .controller, state: state, body)
        // A test can kill the controller.
        #expect(run.exit == 0 || run.exit == nil, "\(run.err)")
        return result
    }

    /// Ends a process of `withProcess` with SIGKILL.
    func kill(_ name: String) async throws { _ = try await sandbox.shell("kill -9 $(cat \(name).pid)") }

    private func withProcess<Result: Sendable>(
        _ words: [String], _ name: String, as user: User, state: String = "state", ready file: String? = nil,
        _ body: () async throws -> Result
    ) async throws -> (result: Result, run: Run) {
        var variables = Self.environment(server, hasUsers ? user : nil)
        variables["OTAFLASH_STATE_DIR"] = sandbox.path(state)
        return try await withThrowingTaskGroup(of: Run.self) { [variables] group in
            group.addTask {
                try await sandbox.shell(
                    "echo $$ > \(name).pid; exec \"$0\" \"$@\"", arguments: words + ["--format", "json"],
                    env: variables)
            }
            while !sandbox.exists(file ?? "\(name).pid") { try await Task.sleep(for: .milliseconds(20)) }
            let stop = "kill $(cat \(name).pid) 2>/dev/null; true"
            let result: Result
            do { result = try await body() } catch {
                _ = try await sandbox.shell(stop)
                throw error
            }
            _ = try await sandbox.shell(stop)
            return (result, try #require(try await group.next()))
        }
    }
}

/// A NATS server with the configuration of `fleet init`, and the store.
enum FleetServer {
    /// Runs `body` with a server that has exactly the configuration that `fleet init --config` writes, for the gateways `desk` and
    /// `attic`. Then `fleet init` has created the store.
    static func run(
        _ version: TestServer.Version, _ body: (Sandbox, TestServer) async throws -> Void
    ) async throws {
        let sandbox = try Sandbox()
        let port = try TestServer.freePorts(1)[0]
        let written = try await sandbox.run(
            Self.words(["desk", "attic"], in: sandbox, port: port))
        #expect(written.exit == 0, "\(written.err)")
        try await TestServer.run(version, configuration: sandbox.folder.appending("nats.conf")) { server in
            let created = try await sandbox.run(
                "fleet", "init", "--server", server.url, "--credentials", "operator.nk", "--format", "json")
            #expect(created.exit == 0, "\(created.err)")
            try await body(sandbox, server)
        }
    }

    private static func words(_ gateways: [String], in sandbox: Sandbox, port: Int) -> [String] {
        ["fleet", "init", "--config", "nats.conf", "--listen", "127.0.0.1:\(port)", "--format", "json", "--store-dir"]
            + [sandbox.path("jetstream")] + gateways.flatMap { ["--gateway", $0] }
    }

    /// Replaces the configuration of the server with one for other gateways. The server does not read it again.
    static func write(_ gateways: [String], in sandbox: Sandbox, _ server: TestServer) async throws {
        let run = try await sandbox.run(words(gateways, in: sandbox, port: server.port) + ["--force"])
        #expect(run.exit == 0, "\(run.err)")
    }

    /// Waits until the condition is true. If this never happens, `scripts/test` ends the tests.
    static func wait(_ condition: () async throws -> Bool) async throws {
        while try await !condition() { try await Task.sleep(for: .milliseconds(100)) }
    }
}
