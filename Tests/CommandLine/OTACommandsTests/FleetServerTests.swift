import DescriptorIO
import Glibc
import NATS
import NATSTestSupport
import OTACommands
import OTAFleet
import OTALocalStore
import OTANATSStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// Rollouts over the store of a NATS server, with virtual devices: each test runs the programs as a user does.
@Suite("Fleet: a rollout over a NATS server") struct FleetServerTests {
    @Test(
        "the commands and a gateway complete a rollout over a server",
        arguments: TestServer.Version.allCases)
    func complete(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 4, server: server.url)
            try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1")
            let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
            #expect(waited.exit == 0, "\(waited.err)")
            let rollout = try waited.json().rollout
            #expect(rollout?.devices?.done?.number == 4 && rollout?.stage?.number == 2)
            #expect(try await fleet.json("fleet", "devices", "--state", "done").devices?.array?.count == 4)
            #expect(try await fleet.json("device", "hold", "sim-d2").device?.state?.string == "held")
            #expect(try await fleet.json("rollout", "list", "--operators", "ops.pub.pem").rollouts?.array?.count == 1)
            #expect(!fleet.sandbox.exists("state/fleet/fleet.db"), "nothing was written to the store of the machine")
        }
    }

    @Test(
        "a gateway that starts before its server waits for it, also behind a proxy, and a waiting status command survives a restart of the server"
    )
    func restart() async throws {
        try await TestServer.run(.debian) { server in
            try await NATSClient.withClient(server.options) { try await NATSStore($0).create() }
            let fleet = try await Fleet(devices: 2, server: server.url)
            try await fleet.create("spring")
            let waited = Task { try await fleet.status("spring", "--wait") }
            // The command does not wait for a server that it has never reached, so it needs time for its first read.
            try await Task.sleep(for: .seconds(6))
            await server.kill()
            let (_, gateway) = try await fleet.withGatewayAlone {
                try await fleet.withController {
                    try await TestServer.run(
                        program: PythonEnvironment.python, arguments: ["-c", Self.proxy, "\(server.port)"]
                    ) { _ in try await Task.sleep(for: .seconds(3)) }
                    try await server.start()
                    let run = try await waited.value
                    #expect(run.exit == 0, "\(run.err)")
                    #expect(try run.json().rollout?.devices?.done?.number == 2)
                }
            }
            #expect(gateway.err.contains("wait: this program tries again every 2 s"), "\(gateway.err)")
            #expect(!gateway.err.contains("run the command again"), "\(gateway.err)")
        }
    }

    /// A proxy whose server does not run: it ends each connection.
    private static let proxy = """
        import socket, sys
        listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
        print(f"client connections on 127.0.0.1:{sys.argv[1]}\\nServer is ready", flush=True)
        while True: listener.accept()[0].close()
        """

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

    @Test("a server whose max_payload is too small refuses a bundle, and the hint names this setting")
    func maximumPayload() async throws {
        try await TestServer.run(.newest, "max_payload: 60000") { server in
            try await server.createStore()
            let sandbox = try Sandbox()
            try await sandbox.release(size: 100_000)
            #expect(try await sandbox.run("keygen", "ops").exit == 0)
            let run = try await sandbox.run(
                "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--server",
                server.url, "--format", "json")
            #expect(try run.exit == 65 && run.json().error?.code?.string == "record-too-large", "\(run.err)")
            #expect(try run.json().error?.hint?.string?.contains("increase max_payload") == true, "\(run.err)")
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

    @Test(
        "a server with the certificate of another CA is refused with store-server-untrusted (77)")
    func otherCA() async throws {
        let sandbox = try Sandbox()
        let made = try await sandbox.shell(
            """
            set -e
            for name in ca other; do
                openssl req -x509 -newkey rsa:2048 -nodes -keyout $name.key -out $name.pem -days 2 -subj "/CN=$name"
            done
            openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=localhost"
            printf 'subjectAltName=DNS:localhost' >names
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names
            """)
        try #require(made.exit == 0, "\(made.err)")
        let folder = sandbox.folder.string
        let settings = "tls { cert_file: \"\(folder)/server.pem\", key_file: \"\(folder)/server.key\" }"
        try await TestServer.run(.newest, settings) { server in
            let url = "tls://localhost:\(server.port)"
            let created = try await sandbox.run("fleet", "init", "--server", url, "--ca", "ca.pem", "--format", "json")
            #expect(created.exit == 0, "\(created.err)")
            for options in [["--ca", "other.pem"], []] {
                let run = try await sandbox.run(["fleet", "devices", "--server", url, "--format", "json"] + options)
                #expect(run.exit == 77, "\(run.err)")
                #expect(try run.json().error?.code?.string == "store-server-untrusted")
                #expect(try run.json().error?.hint?.string?.contains("--ca FILE.pem") == true)
            }
            let missing = try await sandbox.run("fleet", "devices", "--server", url, "--ca", "none.pem")
            #expect(missing.exit == 66, "\(missing.err)")
        }
    }

    @Test("tls:// to a server without TLS fails with this reason, and recommends nats:// or the line tls")
    func withoutTLS() async throws {
        try await TestServer.run(.newest) { server in
            let sandbox = try Sandbox()
            for words in [["fleet", "devices"], ["fleet", "check"], ["fleet", "init"]] {
                let url = "tls://localhost:\(server.port)"
                let run = try await sandbox.run(words + ["--server", url, "--format", "json"])
                #expect(run.exit == 77, "\(run.err)")
                let error = try run.json().error
                #expect(error?.message?.string?.contains("the NATS server offers no TLS") == true, "\(run.out)")
                #expect(error?.hint?.string?.contains("use the address nats://HOST:PORT") == true, "\(run.out)")
                #expect(error?.hint?.string?.contains("--ca") == false)
            }
        }
    }

    @Test("an absent file of credentials is named, with its option or variable and the command that creates it")
    func absentCredentials() async throws {
        let sandbox = try Sandbox()
        let words = ["fleet", "devices", "--server", "nats://127.0.0.1:1", "--format", "json"]
        for (options, variables, source) in [
            (["--credentials", "none.nk"], [:], "--credentials"),
            ([], ["OTAFLASH_FLEET_CREDENTIALS": "none.nk"], "$OTAFLASH_FLEET_CREDENTIALS"),
        ] as [([String], [String: String], String)] {
            let run = try await sandbox.run(words + options, env: variables)
            let error = try run.json().error
            #expect(run.exit == 66 && error?.message?.string?.contains("none.nk") == true, "\(run.out)")
            #expect(error?.hint?.string?.contains("check the path of \(source); ") == true, "\(run.out)")
            #expect(error?.hint?.string?.contains("otaflash fleet init --config FILE") == true)
            #expect(error?.hint?.string?.contains("keygen") == false)
        }
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

    @Test("a rollout that names only controllers that do not lead causes a warning")
    func absentController() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 1, server: server.url)
            #expect(try await fleet.sandbox.run("keygen", "second").exit == 0)
            let first = try await fleet.create("first")
            #expect(first.err.contains(" of --controller leads: no controller has run; "), "\(first.err)")
            #expect(first.err.contains("hint: start the controller: otaflash fleet run --key KEY.pem"), "\(first.err)")
            let words = ["rollout", "create", "other", "--release", fleet.release, "--select", "product=demo"]
            try await fleet.withController {
                try await FleetServer.wait {
                    try await fleet.status("first").json().rollout?.state?.string == "running"
                }
                let other = try await fleet.run(words + ["--key", "ops.pem", "--controller", "second.pub.pem"])
                #expect(other.exit == 0, "\(other.err)")
                #expect(other.err.contains("leads: the last controller that led has the key "), "\(other.err)")
                let both = try await fleet.create("both", "--controller", "second.pub.pem")
                #expect(!both.err.contains("of --controller"), "one of the two leads: \(both.err)")
            }
        }
    }

    @Test("a rollout that names no controller is refused, unless this machine's controller leads on the server")
    func noController() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 1, server: server.url)
            func create(_ name: String) async throws -> Run {
                try await fleet.run([
                    "rollout", "create", name, "--release", fleet.release, "--select", "product=demo", "--key",
                    "ops.pem", "--format", "json",
                ])
            }
            func refusal(_ text: String) async throws {
                let run = try await create("spring")
                #expect(try run.exit == 64 && run.json().error?.message?.string?.contains(text) == true, "\(run.out)")
                #expect(try run.json().error?.hint?.string?.contains("--controller KEY.pub.pem") == true)
                let list = try await fleet.json("rollout", "list", "--operators", "ops.pub.pem")
                #expect(list.rollouts?.array?.isEmpty == true)
            }
            try await refusal("no controller has run on this machine")
            // A gateway with a file as its store has created the key. No controller on the server uses it.
            try fleet.sandbox.makeFolder("state/fleet")
            #expect(try await fleet.sandbox.run("keygen", "state/fleet/controller").exit == 0)
            try await refusal("no controller has run, but the key of this machine's controller is ")
            try await fleet.withController(state: "other") {
                let leader = RecordKey(.progress, try #require(RecordName("_leader")))
                try await NATSClient.withClient(server.options) { client in
                    let store = try NATSStore(client)
                    try await FleetServer.wait { try await store.read(leader) != nil }
                }
                try await refusal("the last controller that led has the key ")
                let named = try await fleet.create("autumn")
                #expect(named.exit == 0)
                #expect(try await fleet.change("abort", "autumn").exit == 0)
            }
        }
    }

    @Test("a rollout without --controller names the key of the controller that runs on this machine without --key")
    func controllerOfMachine() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 1, server: server.url)
            let created = try await fleet.sandbox.shell(
                #""$0" fleet run --operators ops.pub.pem 2>run.err & "#
                    + #"until grep -q "this controller leads" run.err; do sleep 0.1; done; "#
                    + #""$0" "$@"; code=$?; kill $!; wait $!; exit $code"#,
                arguments: [
                    "rollout", "create", "spring", "--release", fleet.release, "--select", "product=demo", "--key",
                    "ops.pem",
                ], env: ["OTAFLASH_FLEET_SERVER": server.url])
            #expect(created.exit == 0, "\(created.err)")
        }
    }

    @Test("a rollout is complete after the server was killed and started again during its updates")
    func serverKilled() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 4, server: server.url, pace: "real")
            try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1")
            let (waited, gateway) = try await fleet.withGatewayAlone {
                try await fleet.withController {
                    while try await fleet.count("running") < 1 { try await Task.sleep(for: .milliseconds(50)) }
                    await server.kill()
                    let away = try await fleet.status("spring")
                    #expect(away.exit == 69, "\(away.err)")
                    try await server.start()
                    return try await fleet.status("spring", "--wait")
                }
            }
            #expect(gateway.err.contains("wait: this program tries again by itself"), "\(gateway.err)")
            #expect(!gateway.err.contains("run the command again"), "\(gateway.err)")
            #expect(waited.exit == 0, "\(waited.err)")
            #expect(try await fleet.count("done") == 4)
        }
    }

    @Test("of two controllers, the second one starts the next stage after the first one was killed")
    func twoControllers() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 2, server: server.url)
            try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1,soak=5s")
            let waited = try await fleet.withGatewayAlone {
                try await fleet.withController {
                    while try await fleet.count("done") < 1 { try await Task.sleep(for: .milliseconds(50)) }
                    return try await fleet.withController(state: "second") {
                        try await fleet.kill("controller-state")
                        let early = try await fleet.status("spring")
                        #expect(try early.json().rollout?.stage?.number == 1)
                        return try await fleet.status("spring", "--wait")
                    }
                }
            }.result
            #expect(waited.exit == 0, "\(waited.err)")
            #expect(try await fleet.count("done") == 2)
        }
    }

    @Test("a rollout without a signature, or signed by a stranger, is reported by the gateway and installs nothing")
    func forged() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 2, server: server.url)
            #expect(try await fleet.sandbox.run("keygen", "other").exit == 0)
            let local = ["--store", "other.db", "--key", "other.pem"]
            #expect(
                try await fleet.sandbox.run(
                    ["release", "publish", "fw.otaf", "--trust", "release.pub.pem"] + local
                ).exit == 0)
            #expect(
                try await fleet.sandbox.run(
                    ["rollout", "create", "theirs", "--release", fleet.release, "--select", "product=demo"] + local
                ).exit == 0)
            let key = RecordKey(.rollouts, try #require(RecordName("theirs")))
            let foreign = try #require(
                try await LocalStore(fleet.sandbox.folder.appending("other.db")).read(key)
            ).bytes
            let signer = try #require(SignedRecord(parsing: foreign).signatures.first).keyID
            let revision = Guarded(0)
            let (_, gateway) = try await fleet.withGatewayAlone {
                try await NATSClient.withClient(server.options) { client in
                    let store = try NATSStore(client)
                    let written = try await store.write(foreign, at: key, expecting: .absent)
                    if case .written(let number) = written { revision.with { $0 = Int(number.number) } }
                    let unsigned = RecordKey(.rollouts, try #require(RecordName("unsigned")))
                    let text = #"{"schema":1,"kind":"rollout","payload":"e30=","signatures":[]}"#
                    #expect(try await store.write(Array(text.utf8), at: unsigned, expecting: .absent) != .conflict)
                }
                // A rollout of the operator follows, for one of the two devices. Its result shows that the gateway has read the others.
                try await fleet.create("spring", "--stages", "devices=sim-d1")
                try await fleet.withController {
                    while try await fleet.count("done") < 1 { try await Task.sleep(for: .milliseconds(50)) }
                }
            }
            let line =
                "the record rollouts/theirs, revision \(revision.with { $0 }): the rollout is not signed by an operator's key; "
                + "its signatures name the keys \(signer)"
            #expect(gateway.err.contains(line), "\(gateway.err)")
            #expect(
                gateway.err.contains(
                    "--operators KEY.pub.pem; if not, check who can write to the store: otaflash fleet check"))
            #expect(gateway.err.contains("the record rollouts/unsigned, revision"), "\(gateway.err)")
            #expect(gateway.err.contains("the signed record does not have 1 to 8 signatures"))
            let listed = try await fleet.run(["rollout", "list", "--operators", "ops.pub.pem"])
            #expect(listed.err.contains(line), "\(listed.err)")
            let devices = try await fleet.json("fleet", "devices").devices?.array
            #expect(devices?.map { $0.id?.string } == ["sim-d1"])
            let status = try await fleet.sandbox.run("status", "--device", "sim:d2?pace=virtual", "--format", "json")
            #expect(status.out.contains(#""1.0.0""#) && !status.out.contains(#""1.1.0""#), "\(status.out)")
        }
    }
}

extension TestServer {
    func createStore() async throws {
        try await NATSClient.withClient(options) { try await NATSStore($0).create() }
    }
}
