import NATS
import NATSTestSupport
import OTALocalStore
import OTAStore
import OTATestSupport
import SystemPackage
import Testing

/// The commands of an operator when another program has damaged records of the store.
@Suite("Fleet: damaged records") struct FleetDamageTests {
    @Test(
        "abort and pause write the rollout and count its devices even if the file has a row with an invalid name",
        arguments: ["pause", "abort"])
    func otherRecords(command: String) async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        // A name with a space is not the name of a record.
        let insert = "insert into record values ('devices', 'sim d1', 99, 0, x'7b7d')"
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
        let inserted = try await Command.run(
            PythonEnvironment.python, ["-c", script, fleet.sandbox.path("state/fleet/fleet.db"), insert])
        try #require(inserted.succeeded, "\(inserted.errorText)")
        let run = try await expectChange(command, fleet)
        #expect(run.err.contains("sim d1") && run.err.contains("hint: "), "\(run.err)")
        #expect(try run.json().rollout?.devices != nil)
    }

    @Test(
        "abort writes the rollout even if its progress is damaged", arguments: [#"{"schema":2}"#, "{}"])
    func progress(text: String) async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        try await fleet.overwrite(.progress, "spring", text)
        try await expectUncounted(expectChange("abort", fleet))
    }

    @Test("abort writes the rollout even if the server has no devices any more")
    func noDevices() async throws {
        try await TestServer.run(.newest) { server in
            try await server.createStore()
            let fleet = try await Fleet(devices: 1, server: server.url)
            try await fleet.create("spring")
            try await NATSClient.withClient(server.options) { client in
                try await KeyValueBucket("otaflash_devices", client).stream.delete()
            }
            try await expectUncounted(expectChange("abort", fleet))
        }
    }

    @Test(
        "abort --release ends a rollout whose record was overwritten, and a gateway that knows the rollout accepts the abort",
        arguments: [#"{"schema":1,"broken":true}"#, #"{"schema":2}"#])
    func overwritten(text: String) async throws {
        let fleet = try await Fleet(devices: 2)
        try await fleet.create("spring", "--stages", "devices=sim-d1,100%", "--advance", "100%,min=1,soak=1h")
        try await fleet.withGateway {
            while try await fleet.count("done") < 1 { try await Task.sleep(for: .milliseconds(50)) }
            try await fleet.overwrite(.rollouts, "spring", text)
            let hint = "otaflash rollout abort spring --release ID --key KEY.pem"
            for command in ["abort", "pause"] {
                let refused = try await fleet.change(command, "spring")
                #expect(try refused.exit == 65 && refused.json().error?.hint?.string?.contains(hint) == true)
            }
            let status = try await fleet.status("spring")
            #expect(try status.exit == 65 && status.json().error?.hint?.string?.contains(hint) == true)
            let aborted = try await fleet.abort("spring")
            #expect(aborted.exit == 0, "\(aborted.err)")
            let rollout = try aborted.json().rollout
            #expect(rollout?.state?.string == "aborted")
            // The gateway writes the serial of each accepted version to its memory.
            let serial = "rollout spring \(Int(rollout?.serial?.number ?? 0)) "
            while try !String(decoding: fleet.sandbox.read("state/fleet/gateway-desk/serials"), as: UTF8.self)
                .contains(serial)
            {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
        let list = try await fleet.json("rollout", "list", "--operators", "ops.pub.pem").rollouts
        #expect(list?[0]?.state?.string == "aborted" && list?[0]?.release?.string == fleet.release)
        let table = try await fleet.run(["rollout", "list", "--operators", "ops.pub.pem"])
        let row = "spring   aborted, progress unknown  -      -     -       demo     \(fleet.release)\n"
        #expect(table.out.hasSuffix(row), "\(table.out)")
    }

    @Test("abort --release ends a rollout whose record was deleted, and needs the ID of a release")
    func deleted() async throws {
        let fleet = try await Fleet(devices: 1)
        let missing = try await fleet.change("abort", "spring")
        #expect(missing.exit == 66 && missing.err.contains("rollout abort spring --release ID"), "\(missing.err)")
        let words = ["rollout", "abort", "spring", "--key", "ops.pem", "--release"]
        #expect(try await fleet.run(words + ["1.1.0"]).exit == 64)
        #expect(try await fleet.run(words + ["0011223344556677"]).exit == 66)
        #expect(try await fleet.abort("spring").exit == 0)
        let status = try await fleet.status("spring")
        #expect(try status.json().rollout?.state?.string == "aborted", "\(status.err)")
    }

    @Test("an abort has a higher serial than each earlier version, also if the store returns an old version")
    func oldVersion() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        let store = try await LocalStore(fleet.sandbox.folder.appending("state/fleet/fleet.db"))
        let key = RecordKey(.rollouts, try #require(RecordName("spring")))
        let first = try #require(try await store.read(key)).bytes
        for command in ["pause", "resume"] { #expect(try await fleet.change(command, "spring").exit == 0) }
        try await fleet.overwrite(.rollouts, "spring", String(decoding: first, as: UTF8.self))
        let aborted = try await fleet.change("abort", "spring")
        #expect(try aborted.json().rollout?.serial?.number ?? 0 > 3, "\(aborted.out)")
    }

    @Test("release publish replaces a damaged record of its release, and release withdraw names this command")
    func release() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.overwrite(.releases, fleet.release, #"{"schema":1}"#)
        let withdrawn = ["release", "withdraw", fleet.release, "--key", "ops.pem", "--format", "json"]
        let refused = try await fleet.run(withdrawn)
        #expect(try refused.exit == 65 && refused.json().error?.hint?.string?.contains("release publish FILE") == true)
        let published = try await fleet.run(
            ["release", "publish", "fw.otaf", "--key", "ops.pem", "--trust", "release.pub.pem", "--format", "json"])
        #expect(try published.exit == 0 && published.json().release?.is_new?.bool == true, "\(published.err)")
        #expect(published.err.contains("is replaced, because it was not valid"), "\(published.err)")
        #expect(try await fleet.run(withdrawn).exit == 0)
    }

    @Test("a device whose record is not valid counts as unfinished, and hold, release and group replace the record")
    func devices() async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        let waited = try await fleet.withGateway { try await fleet.status("spring", "--wait") }
        #expect(waited.exit == 0, "\(waited.err)")
        try await fleet.overwrite(.devices, "sim-d8", #"{"schema":1,"device":"sim-d9","state":"idle"}"#)
        for name in ["sim-d2", "sim-d3"] { try await fleet.overwrite(.devices, name, "{}") }
        let status = try await fleet.status("spring", "--wait", "--timeout", "11s")
        #expect(status.exit == 75, "\(status.out)")
        #expect(try status.json().rollout?.devices?.waiting?.number == 3)
        for name in ["sim-d2", "sim-d3", "sim-d8"] {
            let warning = "the record of the device \(name) is not valid"
            #expect(status.err.split(separator: "\n").count { $0.contains(warning) } == 1, "\(status.err)")
            #expect(status.err.contains("otaflash device release \(name)"), "\(status.err)")
        }
        async let held = fleet.json("device", "hold", "sim-d2")
        async let released = fleet.json("device", "release", "sim-d3")
        let grouped = try await fleet.json("device", "group", "sim-d8", "beta")
        #expect(try await held.device?.state?.string == "held")
        #expect(try await released.device?.state?.string == "idle")
        #expect(grouped.device?.groups?.array?.map { $0.string } == ["beta"])
        let list = try await fleet.run(["fleet", "devices"])
        #expect(list.err.isEmpty && list.out.contains("sim-d8"), "\(list.err)")
    }

    private func expectUncounted(_ run: Run) throws {
        #expect(run.err.contains("the rollout spring is aborted; its devices could not be counted: "), "\(run.err)")
        #expect(try run.err.contains("hint: ") && run.json().rollout?.devices == nil, "\(run.err)")
    }

    private func expectChange(_ command: String, _ fleet: Fleet) async throws -> Run {
        let run = try await fleet.change(command, "spring")
        let state = command == "abort" ? "aborted" : "paused"
        #expect(run.exit == 0, "\(run.err)")
        #expect(try run.json().rollout?.state?.string == state)
        let again = try await fleet.change(command, "spring")
        #expect(again.exit == (command == "abort" ? 77 : 0), "\(again.err)")
        #expect(again.err.contains(state), "the first command wrote the rollout: \(again.err)")
        return run
    }
}

extension Fleet {
    /// Aborts a rollout whose record is damaged or missing.
    func abort(_ name: String) async throws -> Run {
        try await run(["rollout", "abort", name, "--release", release, "--key", "ops.pem", "--format", "json"])
    }

    /// Overwrites a record of the store in the sandbox's state folder, as another program can.
    func overwrite(_ bucket: Bucket, _ name: String, _ text: String) async throws {
        let store = try await LocalStore(sandbox.folder.appending("state/fleet/fleet.db"))
        let key = RecordKey(bucket, try #require(RecordName(name)))
        let written = try await store.write(
            Array(text.utf8), at: key, expecting: try await store.read(key)?.revision ?? .absent)
        guard case .written = written else {
            Issue.record("the record \(key) was not overwritten: \(written)")
            return
        }
    }
}
