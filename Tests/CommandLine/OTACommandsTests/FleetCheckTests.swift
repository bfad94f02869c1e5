import NATS
import NATSTestSupport
import OTANATSStore
import Testing

@Suite("Fleet: fleet init and fleet check") struct FleetCheckTests {
    @Test(
        "one server is suitable: fleet init creates the store, and fleet check passes",
        arguments: TestServer.Version.allCases)
    func one(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            let sandbox = try Sandbox()
            let early = try await sandbox.run("fleet", "check", "--server", server.url, "--format", "json")
            #expect(early.exit == 69, "\(early.err)")
            #expect(try early.json().error?.code?.string == "store-unavailable")
            for command in ["init", "check"] {
                let run = try await sandbox.run("fleet", command, "--server", server.url, "--format", "json")
                #expect(run.exit == 0, "\(run.err)")
                let json = try run.json()
                #expect(json.servers?.array?[0].version?.string == (version == .debian ? "2.9.10" : "2.15.1"))
                #expect(json.race?.rounds?.number == 200 && json.race?.unsafe?.number == 0)
                #expect(json.store?.replicas?.number == 1 && json.store?.writable?.array?.count == 6)
            }
            let streams = try await NATSClient.withClient(server.options) {
                try await $0.request("$JS.API.STREAM.NAMES")
            }
            #expect(
                !String(decoding: streams.payload, as: UTF8.self).contains("check"), "the bucket of the race is deleted"
            )
            let text = try await sandbox.run("fleet", "check", "--server", server.url)
            #expect(text.out.contains("200 rounds of 12 writers, 1 replica: 0 unsafe"), "\(text.out)")
        }
    }

    @Test("a cluster of 2.9.10 is refused, because it accepts several writes with the same expected revision")
    func oldCluster() async throws {
        try await TestServer.withCluster(.debian) { servers in
            let sandbox = try Sandbox()
            let url = servers.map(\.url).joined(separator: ",")
            for command in [["init", "--replicas", "3"], ["check"]] {
                let run = try await sandbox.run(["fleet"] + command + ["--server", url, "--format", "json"])
                #expect(run.exit == 77, "\(run.err)")
                #expect(try run.json().error?.code?.string == "server-unsuitable")
                #expect(try (run.json().race?.unsafe?.number ?? 0) > 0)
            }
            let names = try await NATSClient.withClient(servers[0].options) {
                try await $0.request("$JS.API.STREAM.NAMES")
            }
            #expect(!String(decoding: names.payload, as: UTF8.self).contains("otaflash"), "fleet init created nothing")
        }
    }

    @Test("a cluster of 2.15.1 is suitable, and stores each record on three servers")
    func newCluster() async throws {
        try await TestServer.withCluster(.newest) { servers in
            let sandbox = try Sandbox()
            let url = servers.map(\.url).joined(separator: ",")
            for command in [["init", "--replicas", "3"], ["check"]] {
                let run = try await sandbox.run(["fleet"] + command + ["--server", url, "--format", "json"])
                #expect(run.exit == 0, "\(run.err)")
                let json = try run.json()
                #expect(json.race?.unsafe?.number == 0 && json.race?.replicas?.number == 3)
                #expect(json.store?.replicas?.number == 3)
                #expect(json.servers?.array?.allSatisfy { $0.cluster?.string == "c" } == true)
            }
        }
    }

    @Test("a server without JetStream, and one with small messages, are refused")
    func settings() async throws {
        let sandbox = try Sandbox()
        try await TestServer.run(.newest, hasJetStream: false) { server in
            let run = try await sandbox.run("fleet", "check", "--server", server.url, "--format", "json")
            #expect(run.exit == 77 && run.out.contains("JetStream is not enabled"), "\(run.out)")
        }
        try await TestServer.run(.newest, "max_payload: 65536") { server in
            let run = try await sandbox.run("fleet", "check", "--server", server.url, "--format", "json")
            #expect(run.exit == 77 && run.out.contains("max_payload"), "\(run.out)")
        }
        let run = try await sandbox.run("fleet", "check")
        #expect(run.exit == 64 && run.err.contains("--server nats://HOST:4222"))
    }
}
