import NATS
import NATSTestSupport
import OTACommands
import OTANATSStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// A gateway whose credentials were stolen. The server has exactly the configuration and the store of `fleet init`.
@Suite("Fleet: a hostile gateway on a NATS server") struct HostileGatewayTests {
    @Test(
        "records of the year 9999 and damaged records freeze no device, and one command lists and resets the devices of the gateway",
        arguments: TestServer.Version.allCases)
    func frozen(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 4, server: server.url)
            try await Attacker.run(
                ["freeze", "sim-d1", "held", "sim-d2", "schema", "sim-d3", "large", "sim-d4"], sandbox, server)
            try await fleet.create("spring")
            let list = try await fleet.run(["fleet", "devices", "--operators", "ops.pub.pem", "--gateway", "evil"])
            #expect(list.out.contains("no operator has signed the rollout zzz"), "\(list.out)")
            #expect(list.out.contains("held: otaflash device release sim-d2"), "\(list.out)")
            #expect(
                !list.out.contains("sim-d3") && list.err.contains("otaflash device reset sim-d3 --key"), "\(list.err)")
            #expect(list.err.contains("the record of the device sim-d4 is not valid"), "\(list.err)")
            let hold = try await fleet.run(["device", "hold", "sim-d3"])
            #expect(hold.exit == 65, "a record of a newer otaflash is not replaced: \(hold.err)")
            let stranger = try await fleet.run(
                ["device", "reset", "sim-d3", "--key", "release.pem", "--operators", "ops.pub.pem", "--format", "json"])
            #expect(try stranger.exit == 77 && stranger.json().error?.code?.string == "record-untrusted")
            let waited = try await fleet.withGateway {
                async let named = fleet.json("device", "reset", "sim-d3", "sim-d4", "--key", "ops.pem")
                let all = try await fleet.json("device", "reset", "--gateway", "evil", "--key", "ops.pem")
                // The record of sim-d1 does not count, so a gateway may have replaced it already.
                #expect(
                    all.devices?.array?.contains { $0.id?.string == "sim-d2" && $0.state?.string == "idle" } == true)
                #expect(try await named.devices?.array?.count == 2)
                return try await fleet.status("spring", "--wait", "--timeout", "5m")
            }
            #expect(waited.exit == 0, "\(waited.err)")
            #expect(try waited.json().rollout?.devices?.done?.number == 4)
            let devices = try await fleet.json("fleet", "devices", "--operators", "ops.pub.pem").devices?.array ?? []
            let reset = devices.filter { $0.reset?.at?.string != nil && $0.reset?.signer?.string?.count == 16 }
            let names = reset.compactMap { $0.id?.string }
            #expect(names.contains("sim-d2") && names.contains("sim-d3") && names.contains("sim-d4"), "\(names)")
            #expect(devices.allSatisfy { $0.no_update_because == nil }, "\(devices)")
        }
    }

    @Test(
        "a gateway cannot remove the presence of other gateways, and takes at most its share of consumers and bytes",
        arguments: TestServer.Version.allCases)
    func limits(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let out = try await Attacker.run(["rollup", "-", "sleeper", "-", "consumers", "600"], sandbox, server)
            #expect(out.contains("rollup 10111"), "rollup not permitted: \(out)")
            #expect(out.contains("consumers \(version == .newest ? 500 : 499)"), "\(out)")
            // Servers before 2.10 keep a consumer for as long as its creator wants.
            #expect(out.contains("sleeper refused") == (version == .newest), "\(out)")
            // A gateway without a consumer reads record by record.
            var options = server.options
            try options.useCredentials(inFile: sandbox.path("gateway-desk.nk"))
            try await NATSClient.withClient(options) { client in
                let store = try NATSStore(client)
                let key = RecordKey(.devices, try #require(RecordName("sim-d1")))
                _ = try await store.write([1], at: key, expecting: .absent)
                #expect(try await store.records(in: .devices).map(\.key) == [key])
                try await store.withChanges(of: .devices) { changes in
                    let first = try await changes.first { _ in true }
                    #expect(first?.key == key)
                }
            }
        }
    }

    @Test(
        "beside many junk records, the commands print one summary line, an abort works, and fleet clean removes the junk",
        arguments: TestServer.Version.allCases)
    func junk(_ version: TestServer.Version) async throws {
        try await FleetServer.run(version) { sandbox, server in
            let fleet = try await Fleet(in: sandbox, devices: 1, server: server.url)
            try await fleet.create("spring")
            try await Attacker.run(["fill", "2000", "names", "-", "freeze", "sim-d1"], sandbox, server)
            let status = try await fleet.status("spring")
            #expect(
                status.exit == 0 && status.err.contains("the records of 2000 devices are not valid"), "\(status.err)")
            #expect(
                status.err.contains("and 1997 more") && status.err.contains("otaflash fleet clean"), "\(status.err)")
            #expect(status.err.utf8.count < 1000)
            #expect(try await fleet.change("abort", "spring").exit == 0)
            let cleaned = try await fleet.json("fleet", "clean")
            #expect(cleaned.removed?.number == 2003 && cleaned.changed?.number == 0, "\(cleaned)")
            let list = try await fleet.run(["fleet", "devices", "--format", "json"])
            #expect(list.err.isEmpty, "\(list.err)")
            #expect(try list.json().devices?.array?.map { $0.id?.string } == ["sim-d1"])
            #expect(try await fleet.json("fleet", "clean", "--gateway", "evil").removed?.number == 1)
        }
    }
}

/// The attacks of another NATS client (nats-py) with the credentials of the gateway desk.
private enum Attacker {
    private static let script = """
        import asyncio, json, nats, sys
        ZZZ = {"rollout": "zzz", "rollout_created": "9999-12-31T23:59:59Z"}
        async def main(url, seed, inbox, *words):
            async def ignore(error): pass
            nc = await nats.connect(url, nkeys_seed=seed, inbox_prefix=inbox.encode(), error_cb=ignore)
            async def put(device, body, headers=None):
                await nc.request(f"$KV.otaflash_devices.{device}", body, headers=headers, timeout=60)
            def record(device, **members):
                return json.dumps({"schema": 1, "device": device, "product": "demo", "version": "1.0.0", "attempt": 1,
                    "gateway": "evil", "instance": "00000000", "beat": 2, "at": "2026-11-28T05:22:11Z", **members}).encode()
            async def consumer(index, age):
                config = {"deliver_subject": f"{inbox}.{index}", "deliver_policy": "all", "ack_policy": "none",
                    "inactive_threshold": age * 10**9}
                request = json.dumps({"stream_name": "KV_otaflash_devices", "config": config}).encode()
                answer = await nc.request("$JS.API.CONSUMER.CREATE.KV_otaflash_devices", request, timeout=60)
                return "error" not in json.loads(answer.data)
            for attack, value in zip(words[::2], words[1::2]):
                if attack == "freeze": await put(value, record(value, state="done", **ZZZ))
                if attack == "held": await put(value, record(value, state="held", held_state="held"))
                if attack == "schema": await put(value, b'{"schema":99}')
                if attack == "large": await put(value, b"x" * 4400)
                if attack == "fill":
                    for index in range(int(value)):
                        await nc.publish(f"$KV.otaflash_devices.f{index}", b"x" * (index % 100))
                        if index % 500 == 0: await nc.flush(timeout=60)
                    await nc.flush(timeout=60)
                if attack == "names":
                    for name in ["a.b.c", "a*b", "e" * 300]: await put(name, b"{}")
                if attack == "rollup":
                    headers = {"Nats-Rollup": "all"}
                    answer = await nc.request("$KV.otaflash_gateways.desk", b"{}", headers=headers, timeout=60)
                    print("rollup", json.loads(answer.data).get("error", {}).get("err_code"))
                if attack == "consumers": print("consumers", sum([await consumer(i, 100) for i in range(int(value))]))
                if attack == "sleeper": print("sleeper", "made" if await consumer("x", 10**7) else "refused")
            await nc.close()
        asyncio.run(main(*sys.argv[1:]))
        """

    @discardableResult
    static func run(_ attacks: [String], _ sandbox: Sandbox, _ server: TestServer) async throws -> String {
        let seed = sandbox.path("gateway-desk.nk")
        var options = server.options
        try options.useCredentials(inFile: seed)
        let run = try await Command.run(
            PythonEnvironment.python, ["-c", script, server.url, seed, options.inboxPrefix] + attacks)
        try #require(run.succeeded, "\(run.errorText)")
        return run.outputText
    }
}
