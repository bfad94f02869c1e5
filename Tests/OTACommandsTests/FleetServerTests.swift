import Glibc
import NATS
import NATSTestSupport
import OTACommands
import OTANATSStore
import OTAStore
import Testing

/// Rollouts over the store of a NATS server, with virtual devices: each test runs the programs as a user does.
@Suite("Fleet: a rollout over a NATS server", .timeLimit(.minutes(5))) struct FleetServerTests {
    @Test(
        "the commands and a gateway complete a rollout over a server, and leave no connection",
        arguments: TestServer.Version.allCases)
    func complete(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            try await NATSClient.withClient(server.options) { try await NATSStore($0).create() }
            let fleet = try await Fleet(devices: 4, server: server.url)
            try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1")
            let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait", "--timeout", "60s") }
            #expect(waited.exit == 0, "\(waited.err)")
            let rollout = try waited.json().rollout
            #expect(rollout?.devices?.done?.number == 4 && rollout?.stage?.number == 2)
            #expect(try await fleet.json("fleet", "devices", "--state", "done").devices?.array?.count == 4)
            #expect(try await fleet.json("device", "hold", "sim-d2").device?.state?.string == "held")
            #expect(try await fleet.json("rollout", "list", "--operators", "ops.pub.pem").rollouts?.array?.count == 1)
            #expect(!fleet.sandbox.exists("state/fleet/fleet.db"), "nothing was written to the store of the machine")
        }
    }

    @Test("a server that cannot be reached fails with store-unavailable (69), and the hint names --server")
    func notReached() async throws {
        let sandbox = try Sandbox()
        for word in ["nats://127.0.0.1:1", "nats://127.0.0.1:1,nats://127.0.0.1:2"] {
            let run = try await sandbox.run("fleet", "devices", "--server", word, "--format", "json")
            #expect(run.exit == 69, "\(run.err)")
            #expect(try run.json().error?.code?.string == "store-unavailable")
            #expect(try run.json().error?.message?.string?.contains("127.0.0.1:1") == true)
            #expect(try run.json().error?.hint?.string?.contains("--server nats://HOST:4222") == true)
        }
    }

    @Test("a server without the store fails with store-unavailable, and the hint names fleet init")
    func noStore() async throws {
        try await TestServer.run(.newest) { server in
            let sandbox = try Sandbox()
            let run = try await sandbox.run("fleet", "devices", "--server", server.url, "--format", "json")
            #expect(run.exit == 69, "\(run.err)")
            #expect(try run.json().error?.hint?.string?.contains("otaflash fleet init --server URL") == true)
        }
    }

    @Test(
        "wrong values of --server, --store and --credentials are usage errors",
        arguments: [
            ["--server", "nats://localhost", "--store", "fleet.db"], ["--server", "localhost:4222"],
            ["--store", "nats://localhost:4222"], ["--server", "http://localhost:4222"], ["--server", ","],
        ])
    func usage(_ options: [String]) async throws {
        let sandbox = try Sandbox()
        let run = try await sandbox.run(["fleet", "devices"] + options)
        #expect(run.exit == 64, "\(run.err)")
        #expect(!sandbox.exists("nats:") && !sandbox.exists("fleet.db"))
    }

    @Test("credentials that other users can read are refused before the first connection")
    func readableCredentials() async throws {
        let sandbox = try Sandbox()
        try sandbox.write("user.nk", Array("SUA\n".utf8))
        chmod(sandbox.path("user.nk"), 0o640)
        let words = ["fleet", "devices", "--server", "nats://127.0.0.1:1", "--format", "json"]
        let run = try await sandbox.run(words + ["--credentials", "user.nk"])
        #expect(run.exit == 77)
        #expect(try run.json().error?.code?.string == "key-file-permissions")
        chmod(sandbox.path("user.nk"), 0o600)
        // The environment variable has the same effect as the option.
        let malformed = try await sandbox.run(words, env: ["OTAFLASH_FLEET_CREDENTIALS": "user.nk"])
        #expect(malformed.exit == 64 && malformed.out.contains("contains no NKey seed"), "\(malformed.out)")
    }
}
