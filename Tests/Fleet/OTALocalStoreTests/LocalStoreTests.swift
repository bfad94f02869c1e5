import Glibc
import OTALocalStore
import OTASigning
import OTAStore
import StoreContract
import SystemPackage
import Testing

@Suite("Store in a file") struct LocalStoreTests {
    @Test(
        "two connections to a file have the behaviour of all stores",
        arguments: StoreContract.cases + StoreContract.ageCases)
    func contract(_ rule: StoreContract.Case) async throws {
        let folder = try StoreFolder()
        let clock = ManualClock()
        let stores = (try await folder.open(clock: clock), try await folder.open(clock: clock))
        try await rule.run(StoreContract(stores.0, stores.1, clock: clock))
        #expect(try await folder.python("PRAGMA integrity_check") == ["ok"])
    }

    @Test("a store has everything that an earlier connection has written")
    func reopening() async throws {
        let folder = try StoreFolder()
        let key = try RecordKey.of(.devices, "a")
        let object: [UInt8] = [1, 2, 3]
        let event = try StoreContract.event("a", attempt: 3, "confirmed")
        do {
            let store = try await folder.open()
            #expect(try await store.write([7], at: key, expecting: .absent) == .written(Revision(1)))
            try await store.putObject(object, digest: SHA256.digest(of: object))
            try await store.append(event)
        }
        let store = try await folder.open()
        #expect(try await store.read(key)?.bytes == [7])
        #expect(try await store.object(SHA256.digest(of: object)) == object)
        #expect(try await store.events(after: 0).map(\.event) == [event])
        #expect(try await store.write([8], at: key, expecting: Revision(1)) == .written(Revision(2)))
    }

    @Test("the SQLite of Python reads the records, objects and events of a store")
    func python() async throws {
        let folder = try StoreFolder()
        let clock = ManualClock()
        let store = try await folder.open(clock: clock)
        let key = try RecordKey.of(.sightings, "sim-a.berlin-7")
        _ = try await store.write([1], at: key, expecting: .absent)
        _ = try await store.write([0xAB, 0], at: key, expecting: Revision(1))
        try await store.putObject([1], digest: SHA256.digest(of: [1]))
        try await store.append(StoreContract.event("sim-a", attempt: .max, "confirmed"))
        let records = try await folder.python("SELECT bucket, name, revision, written, bytes FROM record")
        #expect(records == ["sightings|sim-a.berlin-7|2|\(clock.now.milliseconds)|ab00"])
        let objects = try await folder.python("SELECT digest, bytes FROM object")
        #expect(objects == ["4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a|01"])
        let events = try await folder.python("SELECT * FROM event")
        let identifier = "t-140/sim-a/4294967295/confirmed"
        #expect(
            events == [
                "1|\(identifier)|t-140|sim-a|berlin-7|4294967295|confirmed|373737|\(clock.now.milliseconds)"
            ])
        #expect(
            try await folder.python("SELECT * FROM counter ORDER BY name") == ["event|1", "history|3", "revision|2"])
        #expect(try await folder.python("PRAGMA application_id") == [String(0x4F54_4153)])
        #expect(try await folder.python("PRAGMA journal_mode") == ["delete"], "not the mode wal, which stays in a file")
    }

    @Test("only the owner can use the file, its journal and a new folder")
    func permissions() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open()
        _ = try await store.write([], at: .of(.devices, "a"), expecting: .absent)
        let otaflash = folder.file.removingLastComponent()
        for (path, mode) in [
            (folder.file, 0o600), (FilePath(folder.file.string + "-journal"), 0o600), (otaflash, 0o700),
            (otaflash.removingLastComponent(), 0o700),
        ] {
            #expect(try path.stat().permissions.rawValue == CModeT(mode), "\(path)")
        }
    }

    @Test("the object whose bytes were damaged on the disk is object-damaged, and can be stored again")
    func damagedObject() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open()
        let digest = SHA256.digest(of: [1, 2, 3])
        try await store.putObject([1, 2, 3], digest: digest)
        try await folder.python("UPDATE object SET bytes = x'010203FF'")
        await #expect(throws: StoreError(.objectDamaged, "")) { try await store.object(digest) }
        try await store.putObject([1, 2, 3], digest: digest)
        #expect(try await store.object(digest) == [1, 2, 3])
    }

    @Test("old records and events are deleted from the file at most once a minute, and not before their end")
    func pruning() async throws {
        let folder = try StoreFolder()
        let clock = ManualClock()
        let store = try await folder.open(clock: clock)
        func counts() async throws -> [String] {
            try await folder.python(
                "SELECT (SELECT count(*) FROM record WHERE bucket = 'gateways'), "
                    + "(SELECT count(*) FROM record WHERE bucket = 'sightings'), (SELECT count(*) FROM event), "
                    + "(SELECT value FROM counter WHERE name = 'history')")
        }
        _ = try await store.write([], at: .of(.gateways, "a"), expecting: .absent)
        _ = try await store.write([], at: .of(.sightings, "a"), expecting: .absent)
        try await store.append(StoreContract.event("a", attempt: 1, "confirmed"))
        var number = 0
        func write(after duration: Duration) async throws -> [String] {
            clock.advance(by: duration)
            number += 1
            _ = try await store.write([], at: .of(.devices, "d\(number)"), expecting: .absent)
            return try await counts()
        }
        #expect(try await write(after: .seconds(45)) == ["1|1|1|3"])
        // The store deleted nothing at 0 s, and looks again at 60 s.
        #expect(try await write(after: .seconds(45)) == ["1|1|1|3"], "90 s: nothing is too old")
        #expect(try await write(after: .seconds(59)) == ["1|1|1|3"], "149 s: less than a minute later")
        #expect(try await write(after: .seconds(1)) == ["0|1|1|3"], "150 s")
        #expect(try await write(after: .seconds(751)) == ["0|0|1|3"], "901 s")
        #expect(try await write(after: .seconds(90 * 86_400 - 901)) == ["0|0|1|3"], "90 days")
        #expect(try await write(after: .seconds(60)) == ["0|0|0|0"], "90 days and a minute")
        clock.advance(by: .seconds(-1_000_000))
        _ = try await store.write([], at: .of(.gateways, "b"), expecting: .absent)
        #expect(try await write(after: .seconds(91)) == ["0|0|0|0"], "after the clock was set back")
    }

    @Test("the oldest events are deleted when the history is larger than its maximum size")
    func longHistory() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open(historyBytes: 10_000)
        for attempt in 1...5 {
            try await store.append(StoreContract.event("a", attempt: UInt32(attempt), "confirmed", count: 2500))
        }
        #expect(try await store.events(after: 0).map(\.event.attempt) == [2, 3, 4, 5], "10,000 bytes")
        try await store.append(StoreContract.event("a", attempt: 6, "confirmed", count: 2501))
        #expect(try await store.events(after: 0).map(\.event.attempt) == [4, 5, 6], "not 10,001 bytes")
        let sizes = try await folder.python(
            "SELECT value, (SELECT sum(length(bytes)) FROM event) FROM counter WHERE name = 'history'")
        #expect(sizes == ["7501|7501"])
    }

    @Test("one read returns at most 1000 events, and the next read continues")
    func manyEvents() async throws {
        let folder = try StoreFolder()
        let store = try await folder.open()
        try await folder.python(
            "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1001) "
                + "INSERT INTO event SELECT i, 'id' || i, 't-140', 'a', 'g', i, 'confirmed', x'', 9000000000000000 FROM n"
        )
        let first = try await store.events(after: 0)
        #expect(first.map(\.number) == Array(1...1000))
        #expect(try await store.events(after: 1000).map(\.event.attempt) == [1001])
    }
}
