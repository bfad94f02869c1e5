import OTATestSupport
import Testing

/// A fleet of virtual devices with the product `demo`, an operator's key, and a published release of version 1.1.0.
struct Fleet {
    let sandbox: Sandbox
    let release: String
    /// The address of the NATS server with the store; nil: the store is a file.
    let server: String?

    /// - Parameters:
    ///   - server: the address of the NATS server with the store; nil: the store is a file.
    ///   - parameters: more parameters in the addresses of the virtual devices.
    ///   - options: more options of `simulate create`.
    init(devices: Int, server: String? = nil, parameters: String = "", _ options: String...) async throws {
        sandbox = try Sandbox()
        self.server = server
        try await sandbox.release()
        #expect(try await sandbox.run("keygen", "ops").exit == 0)
        for number in 1...devices {
            let created = try await sandbox.run(
                ["simulate", "create", "d\(number)", "--product", "demo", "--version", "1.0.0", "--trust"]
                    + ["release.pub.pem"] + options)
            #expect(created.exit == 0, "\(created.err)")
        }
        let list = (1...devices).map { "sim:d\($0)?pace=virtual&seed=\($0)\(parameters)\n" }.joined()
        try sandbox.write("list", Array(list.utf8))
        let published = try await sandbox.run(
            "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--format", "json",
            env: Self.environment(server))
        #expect(published.exit == 0, "\(published.err)")
        release = try #require(try published.json().release?.id?.string)
    }

    private static func environment(_ server: String?) -> [String: String] {
        server.map { ["OTAFLASH_FLEET_SERVER": $0] } ?? [:]
    }

    func run(_ words: [String]) async throws -> Run {
        try await sandbox.run(words, env: Self.environment(server))
    }

    @discardableResult
    func create(_ name: String, _ options: String...) async throws -> Run {
        let run = try await run(
            ["rollout", "create", name, "--release", release, "--select", "product=demo,running=<1.1.0", "--key"]
                + ["ops.pem", "--format", "json"] + options)
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

    private static let words = [
        "gateway", "run", "--name", "desk", "--device-file", "list", "--trust", "release.pub.pem", "--operators",
        "ops.pub.pem",
    ]

    func gateway() async throws -> Run { try await run(Self.words) }

    /// Runs a gateway during `body`, and then stops it with SIGTERM.
    func withGateway<Result: Sendable>(_ body: () async throws -> Result) async throws -> Result {
        try await withThrowingTaskGroup(of: Run.self) { group in
            group.addTask {
                try await sandbox.shell(
                    #"echo $$ > gateway.pid; exec "$0" "$@""#, arguments: Self.words + ["--format", "json"],
                    env: Self.environment(server))
            }
            while !sandbox.exists("state/fleet/gateway-desk/lock") { try await Task.sleep(for: .milliseconds(20)) }
            let result: Result
            do { result = try await body() } catch {
                _ = try await sandbox.shell("kill $(cat gateway.pid)")
                throw error
            }
            _ = try await sandbox.shell("kill $(cat gateway.pid)")
            let stopped = try await group.next()
            #expect(stopped?.exit == 0, "\(stopped?.err ?? "")")
            #expect(try stopped?.json().gateway?.string == "desk")
            return result
        }
    }
}
