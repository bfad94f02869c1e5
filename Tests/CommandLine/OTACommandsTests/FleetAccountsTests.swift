import FoundationEssentials
import Glibc
import NATS
import NATSTestSupport
import OTANATSStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// The server has exactly the configuration that `fleet init --config` writes.
@Suite("Fleet: the accounts and users of a NATS server") struct FleetAccountsTests {
    @Test(
        "an operator, a controller and a gateway complete a rollout, each with its own user",
        arguments: TestServer.Version.allCases)
    func complete(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 3, server: server.url)
            try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1")
            let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
            #expect(waited.exit == 0, "\(waited.err)")
            #expect(try await fleet.count("done") == 3)
            #expect(try await fleet.json("device", "hold", "sim-d2").device?.state?.string == "held")
            let list = try await fleet.run(["rollout", "list", "--operators", "ops.pub.pem"], as: .controller)
            #expect(list.exit == 0 && list.out.contains("spring"), "\(list.err)")
        }
    }

    @Test(
        "a gateway writes no rollout, neither directly nor through the subject for a reply",
        arguments: TestServer.Version.allCases)
    func attacks(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 1, server: server.url)
            try await fleet.create("spring")
            try await NATSClient.withClient(try options(sandbox, server, "operator.nk")) { client in
                let rollouts = try KeyValueBucket("otaflash_rollouts", client)
                let before = try await rollouts.get("spring")
                #expect(before != nil)
                try await NATSClient.withClient(try options(sandbox, server, "gateway-desk.nk")) { client in
                    let own = try KeyValueBucket("otaflash_devices", client)
                    _ = try await own.write(Array("forged".utf8), "sim-x", expecting: 0)
                    let others = try KeyValueBucket("otaflash_rollouts", client)
                    #expect(try await others.get("spring") == before)
                    await #expect(throws: NATSError(.permissionDenied, "")) {
                        _ = try await others.write([1], "spring", expecting: before?.revision ?? 0)
                    }
                    await #expect(throws: NATSError(.permissionDenied, "")) { try await others.stream.delete() }
                    let gateways = try KeyValueBucket("otaflash_gateways", client)
                    _ = try await gateways.write([1], "desk", expecting: 0)
                    await #expect(throws: NATSError(.permissionDenied, "")) {
                        _ = try await gateways.write([1], "attic", expecting: 0)
                    }
                }
                // Clients do not send requests with such subjects for the reply, so this test speaks the protocol itself.
                for stored in ["devices.$KV.otaflash_devices.sim-x", "rollouts.$KV.otaflash_rollouts.spring"] {
                    let request = "$JS.API.DIRECT.GET.KV_otaflash_\(stored)"
                    try await Peer.publish(
                        request, reply: "$KV.otaflash_rollouts.spring", server.url, sandbox.path("gateway-desk.nk"))
                }
                #expect(try await rollouts.get("spring") == before)
                #expect(try await rollouts.history("spring").count == 1)
            }
        }
    }

    @Test("missing credentials, and those of a user that the server does not have, fail with store-access-refused (77)")
    func wrongCredentials() async throws {
        try await FleetServer.run(.newest) { sandbox, server in
            try sandbox.makeFolder("other")
            #expect(try await sandbox.run("fleet", "init", "--config", "other/nats.conf").exit == 0)
            for options in [[], ["--credentials", "other/operator.nk"]] {
                let run = try await sandbox.run(
                    ["fleet", "devices", "--server", server.url, "--format", "json"] + options)
                #expect(run.exit == 77, "\(run.err)")
                #expect(try run.json().error?.code?.string == "store-access-refused")
                let hint = try run.json().error?.hint?.string
                #expect(hint?.contains("--credentials FILE") == true)
                #expect(hint?.contains("has the user of this file") == !options.isEmpty, "\(hint ?? "")")
            }
            // A gateway is a user of the server, but may not write rollouts or releases.
            try await sandbox.release()
            #expect(try await sandbox.run("keygen", "ops").exit == 0)
            let published = try await sandbox.run(
                "release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--server",
                server.url, "--credentials", "gateway-desk.nk", "--format", "json")
            #expect(published.exit == 77, "\(published.err)")
            #expect(try published.json().error?.code?.string == "store-access-refused")
        }
    }

    @Test("a gateway with the credentials of another one ends with store-access-refused (77), and updates no device")
    func otherName() async throws {
        try await FleetServer.run(.newest) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 1, server: server.url)
            try await fleet.create("spring")
            let run = try await fleet.run(
                ["gateway", "run", "--name", "dsk", "--device-file", "list", "--trust", "release.pub.pem"]
                    + ["--operators", "ops.pub.pem", "--format", "json"], as: .gateway)
            #expect(run.exit == 77, "\(run.err)")
            let error = try run.json().error
            #expect(error?.code?.string == "store-access-refused", "\(run.out)")
            #expect(error?.message?.string?.contains("may not write as the gateway 'dsk'") == true, "\(run.out)")
            #expect(error?.hint?.string?.contains("belongs to the credentials: --name NAME") == true, "\(run.out)")
            #expect(try await fleet.json("fleet", "devices").devices?.array?.isEmpty == true)
        }
    }

    @Test(
        "a gateway with the credentials of an operator or a controller ends with 77, and names the right file",
        arguments: ["operator.nk", "controller.nk"])
    func otherRole(credentials: String) async throws {
        try await FleetServer.run(.debian) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 1, server: server.url)
            let run = try await fleet.gateway(["--credentials", credentials, "--format", "json"])
            #expect(run.exit == 77, "\(run.err)")
            let error = try run.json().error
            #expect(error?.code?.string == "store-access-refused", "\(run.out)")
            #expect(error?.message?.string?.contains("may not write as the gateway 'desk'") == true, "\(run.out)")
            #expect(
                error?.hint?.string?.contains("give the credentials of this gateway: --credentials gateway-desk.nk")
                    == true)
            #expect(!run.err.contains("no-responders"), "\(run.err)")
        }
    }

    @Test(
        "after 'fleet init --force' and 'nats-server --signal reload', the server accepts the user of a new gateway",
        arguments: TestServer.Version.allCases)
    func newGateway(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            try await FleetServer.write(["desk", "attic", "porch"], in: sandbox, server)
            let list = ["fleet", "devices", "--server", server.url, "--credentials", "gateway-porch.nk"]
            #expect(try await sandbox.run(list).exit == 77)
            try await server.reloadByCommand()
            try await FleetServer.wait { try await sandbox.run(list).exit == 0 }
        }
    }

    @Test(
        "a gateway and a controller whose users are removed from the server end with store-access-refused (77)",
        arguments: TestServer.Version.allCases)
    func removedUsers(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 1, server: server.url)
            async let gateway = fleet.gateway(["--format", "json"])
            async let controller = fleet.run(
                ["fleet", "run", "--key", "controller.pem", "--operators", "ops.pub.pem", "--format", "json"],
                as: .controller)
            try await FleetServer.wait { try await fleet.json("fleet", "gateways").gateways?.array?.count == 1 }
            try await fleet.create("spring")
            try await FleetServer.wait { try await fleet.status("spring").json().rollout?.state?.string == "running" }
            // The entry of each user has three lines in the configuration.
            var lines = String(decoding: try sandbox.read("nats.conf"), as: UTF8.self).split(separator: "\n")
            for file in ["controller.nk", "gateway-desk.nk"] {
                var options = server.options
                let key = try options.useCredentials(inFile: sandbox.path(file))
                let first = try #require(lines.firstIndex { $0.contains("nkey: \(key)") })
                lines.removeSubrange(first...first + 2)
            }
            try sandbox.write("nats.conf", Array(lines.joined(separator: "\n").utf8))
            try await server.reloadByCommand()
            for run in [try await gateway, try await controller] {
                #expect(run.exit == 77, "\(run.err)")
                let error = try run.json().error
                #expect(error?.code?.string == "store-access-refused", "\(run.out)")
                #expect(error?.message?.string?.contains("does not accept this user any more") == true, "\(run.out)")
                #expect(error?.hint?.string?.contains("--credentials") == true)
            }
        }
    }

    @Test("fleet init keeps existing credentials, and replaces a configuration only with --force")
    func again() async throws {
        let sandbox = try Sandbox()
        func write(_ options: String...) async throws -> Run {
            try await sandbox.run(["fleet", "init", "--config", "nats.conf", "--format", "json"] + options)
        }
        let first = try await write("--gateway", "desk")
        let keys = try first.json().configuration?.users?.array?.map { $0.key?.string }
        #expect(first.exit == 0 && keys?.count == 3, "\(first.err)")
        let refused = try await write("--gateway", "desk")
        let hint = try refused.json().error?.hint?.string
        #expect(refused.exit == 73 && hint?.contains("fleet init --config nats.conf --force") == true, "\(hint ?? "")")
        let second = try await write("--gateway", "desk", "--gateway", "attic", "--force")
        let more = try second.json().configuration?.users?.array?.map { $0.key?.string }
        #expect(more?.count == 4 && more.map { Array($0.prefix(3)) } == keys, "\(second.err)")
        for name in ["operator.nk", "controller.nk", "gateway-desk.nk", "gateway-attic.nk"] {
            var status = stat()
            #expect(stat(sandbox.path(name), &status) == 0 && status.st_mode & 0o777 == 0o600, "\(name)")
        }
        let words = ["fleet", "init", "--config", "nats.conf", "--force"]
        let replaced = try await sandbox.run(words)
        #expect(replaced.out.contains("\nnext: reload the server: nats-server --signal reload\n"), "\(replaced.out)")
        #expect(replaced.out.contains("  operator.nk (existing)\n"), "\(replaced.out)")
        // Without a configuration, the author of the credentials is unknown.
        let foreign = try await sandbox.run("fleet", "init", "--config", "new.conf")
        #expect(
            foreign.exit == 73 && foreign.err.contains("the credentials operator.nk already exist"), "\(foreign.err)")
        #expect(!FileManager.default.fileExists(atPath: sandbox.path("new.conf")))
        _ = try await sandbox.shell("mkdir fresh")
        let new = try await sandbox.run("fleet", "init", "--config", "fresh/nats.conf")
        #expect(new.out.contains("\nnext: start the server: nats-server -c fresh/nats.conf\n"), "\(new.out)")
        #expect(try await write("--gateway", "a.b", "--force").exit == 64)
        #expect(try await write("--server", "nats://127.0.0.1:1").exit == 64)
    }

    private func options(_ sandbox: Sandbox, _ server: TestServer, _ credentials: String) throws -> NATSOptions {
        var options = server.options
        try options.useCredentials(inFile: sandbox.path(credentials))
        return options
    }
}

/// Another NATS client: nats-py.
private enum Peer {
    private static let script = """
        import asyncio, nats, sys
        async def main(url, seed, subject, reply):
            async def ignore(error): pass
            client = await nats.connect(url, nkeys_seed=seed, error_cb=ignore, max_reconnect_attempts=0)
            await client.publish(subject, b"", reply=reply)
            # The second message is answered after the server has handled the first one.
            await client.flush()
            await asyncio.sleep(0.5)
            await client.close()
        asyncio.run(main(*sys.argv[1:]))
        """

    /// Publishes a message with a subject for the reply.
    static func publish(_ subject: String, reply: String, _ server: String, _ seed: String) async throws {
        let run = try await Command.run(PythonEnvironment.python, ["-c", script, server, seed, subject, reply])
        try #require(run.succeeded, "\(run.errorText)")
    }
}
