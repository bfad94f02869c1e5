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
        "abort and pause write the rollout even if another record is damaged, and report that the devices are not counted",
        arguments: ["pause", "abort"])
    func otherRecords(command: String) async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        // A name with a space is not the name of a record, so the store refuses to list the devices.
        let insert = "insert into record values ('devices', 'sim d1', 99, 0, x'7b7d')"
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
        let inserted = try await Command.run(
            PythonEnvironment.python, ["-c", script, fleet.sandbox.path("state/fleet/fleet.db"), insert])
        try #require(inserted.succeeded, "\(inserted.errorText)")
        try await expectChange(command, fleet)
    }

    @Test(
        "abort writes the rollout even if its progress is damaged", arguments: [#"{"schema":2}"#, "{}"])
    func progress(text: String) async throws {
        let fleet = try await Fleet(devices: 1)
        try await fleet.create("spring")
        try await fleet.overwrite(.progress, "spring", text)
        try await expectChange("abort", fleet)
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
            try await expectChange("abort", fleet)
        }
    }

    private func expectChange(_ command: String, _ fleet: Fleet) async throws {
        let run = try await fleet.change(command, "spring")
        let state = command == "abort" ? "aborted" : "paused"
        #expect(run.exit == 0, "\(run.err)")
        #expect(run.err.contains("the rollout spring is \(state); its devices could not be counted: "), "\(run.err)")
        #expect(run.err.contains("otaflash rollout status spring"), "\(run.err)")
        let rollout = try run.json().rollout
        #expect(rollout?.state?.string == state && rollout?.devices == nil)
        let again = try await fleet.change(command, "spring")
        #expect(again.exit == 77 && again.err.contains(state), "the first command wrote the rollout: \(again.err)")
    }
}

extension Fleet {
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
