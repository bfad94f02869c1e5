import NATS
import NATSTestSupport
import OTAFirmware
import OTANATSStore
import OTASigning
import OTAStore
import StoreContract
import Testing

@Suite("Store on a NATS server") struct NATSStoreTests {
    /// The configuration of a server with the user `reader`, who may not create consumers.
    private let noConsumers = """
        authorization { timeout: 30, users: [{ user: reader, password: secret, permissions: {
            publish: { deny: ["$JS.API.CONSUMER.>"] } } }] }
        """

    @Test("the store has the behaviour of all stores", arguments: TestServer.Version.allCases, StoreContract.cases)
    func contract(_ version: TestServer.Version, _ rule: StoreContract.Case) async throws {
        try await withStores(version) { try await rule.run(StoreContract($0, $1)) }
    }

    @Test(
        "a store without the permission to create consumers has the behaviour of all stores",
        arguments: StoreContract.cases)
    func contractWithoutConsumers(_ rule: StoreContract.Case) async throws {
        try await withStores(.newest, noConsumers, login: "reader:secret@") {
            try await rule.run(StoreContract($0, $1))
        }
    }

    @Test("a watch without a consumer does not start with the earlier versions of a record")
    func earlierVersions() async throws {
        try await withStores(.newest, noConsumers, login: "reader:secret@") { writer, reader in
            let key = try RecordKey.of(.rollouts, "t-140")
            var revision = Revision.absent
            for version: UInt8 in 1...3 {
                guard case .written(let next) = try await writer.write([version], at: key, expecting: revision) else {
                    Issue.record("version \(version) was not written")
                    return
                }
                revision = next
            }
            try await reader.withChanges(of: .rollouts) { changes in
                let first = try await changes.first { _ in true }
                #expect(first == StoredRecord(key: key, revision: revision, bytes: [3]))
            }
        }
    }

    @Test("a list without a consumer has all records, also those that are replaced while it is read")
    func listWithoutConsumer() async throws {
        try await withStores(.newest, noConsumers, login: "reader:secret@") { writer, reader in
            let keys = try (0..<1_000).map { try RecordKey.of(.devices, "device-\($0)") }
            var revisions: [RecordKey: Revision] = [:]
            for key in keys + keys.shuffled() {
                guard
                    case .written(let next) = try await writer.write([1], at: key, expecting: revisions[key] ?? .absent)
                else { throw StoreError(.unavailable, "not written") }
                revisions[key] = next
            }
            let written = revisions
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    var revisions = written
                    while !Task.isCancelled, let key = keys.randomElement(), let revision = revisions[key] {
                        guard case .written(let next) = try await writer.write([2], at: key, expecting: revision) else {
                            return
                        }
                        revisions[key] = next
                    }
                }
                for _ in 0..<3 {
                    let records = try await reader.records(in: .devices)
                    #expect(Set(records.map(\.key)) == Set(keys) && records.count == keys.count)
                    #expect(records.allSatisfy { $0.revision >= written[$0.key] ?? .absent })
                }
                group.cancelAll()
                try? await group.waitForAll()
            }
        }
    }

    @Test(
        "a watch ends with store-records-lost after the server was restored from an older copy",
        arguments: [true, false])
    func restored(hasConsumer: Bool) async throws {
        try await TestServer.run(.newest, hasConsumer ? "" : noConsumers) { server in
            var options = server.options
            options.servers = ["nats://\(hasConsumer ? "" : "reader:secret@")localhost:\(server.port)"]
            try await NATSClient.withClient(options) { client in
                let store = try NATSStore(client)
                try await store.create()
                let (lost, kept) = (try RecordKey.of(.devices, "lost"), try RecordKey.of(.devices, "kept"))
                #expect(try await store.write([1], at: kept, expecting: .absent) == .written(Revision(1)))
                await server.kill()
                try await server.copyFiles(to: "older")
                try await server.start()
                let outcome = try await untilReady { try await store.write([2], at: lost, expecting: .absent) }
                #expect(outcome == .written(Revision(2)))
                let error = await #expect(throws: StoreError.self) {
                    try await store.withChanges(of: .devices) { changes in
                        for try await record in changes where record.key == lost {
                            await server.kill()
                            try await server.copyFiles(from: "older")
                            try await server.start()
                            // The restored server uses the revision of the lost write again.
                            let outcome = try await untilReady {
                                try await store.write([3], at: kept, expecting: Revision(1))
                            }
                            #expect(outcome == .written(Revision(2)))
                        }
                    }
                }
                #expect(error?.context.contains("'lost' in the bucket devices had the revision 2") == true)
            }
        }
    }

    @Test("the records of gateways end after 90 s, those of sightings after 15 minutes, and their buckets have limits")
    func settings() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { client in
                try await NATSStore(client).create()
                for bucket in Bucket.allCases {
                    var settings = KeyValueBucket.Settings()
                    settings.history = bucket == .rollouts ? 16 : 1
                    settings.maximumValueSize = 4_096 + 512
                    settings.maximumAge = [Bucket.gateways: .seconds(90), .sightings: .seconds(900)][bucket]
                    settings.permitsRollups = false
                    settings.maximumBytes =
                        [
                            Bucket.devices: 256 << 20, .sightings: 16 << 20, .gateways: 4 << 20,
                        ][bucket]
                    if bucket == .devices {
                        (settings.maximumKeys, settings.maximumConsumers) = (200_000, 500)
                        settings.maximumConsumerAge = .seconds(300)
                    }
                    // The creation succeeds only if the bucket has these settings.
                    try await KeyValueBucket("otaflash_\(bucket.rawValue)", client).create(settings)
                }
            }
        }
    }

    @Test("a write whose answer is lost has an unknown outcome")
    func lostAnswer() async throws {
        try await TestServer.run(.newest) { server in
            var options = server.options
            options.requestTimeout = .milliseconds(200)
            try await NATSClient.withClient(options) { client in
                let store = try NATSStore(client)
                try await untilReady { try await store.create() }
                let key = try RecordKey.of(.devices, "sim-a")
                server.pause()
                #expect(try await store.write([1], at: key, expecting: .absent) == .unknown)
                await #expect(throws: StoreError(.unavailable, "")) { _ = try await store.read(key) }
                server.resume()
            }
        }
    }

    @Test("without a server, nothing is written, and the store is unavailable")
    func noServer() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { client in
                let store = try NATSStore(client)
                try await store.create()
                var states = client.states().makeAsyncIterator()
                #expect(await states.next() == .connected)
                await server.kill()
                #expect(await states.next() == .reconnecting)
                let key = try RecordKey.of(.devices, "sim-a")
                // During an attempt to connect, the client does not know yet that the server is away.
                do throws(StoreError) {
                    #expect(try await store.write([1], at: key, expecting: .absent) == .unknown)
                } catch {
                    #expect(error == StoreError(.unavailable, ""))
                }
                try await server.start()
                #expect(try await untilReady { try await store.read(key) } == nil)
            }
        }
    }

    @Test("records, objects and events that no client of the fleet has written do not hide the others")
    func foreignContents() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { client in
                let store = try NATSStore(client)
                try await store.create()
                let devices = try KeyValueBucket("otaflash_devices", client)
                for key in ["a.b.c", "=", String(repeating: "x", count: 65)] {
                    _ = try await devices.write([1], key, expecting: 0)
                }
                _ = try await devices.write(Array(repeating: 1, count: 4_200), "large", expecting: 0)
                let key = try RecordKey.of(.devices, "sim-a")
                let outcome = try await store.write([2], at: key, expecting: .absent)
                // The reader of a record refuses a size above 4096 bytes.
                let records = try await store.records(in: .devices)
                #expect(records.map(\.key.name.description) == ["large", "sim-a"])
                #expect(records.last.map { .written($0.revision) } == outcome)
                let large = try await store.read(.of(.devices, "large"))
                #expect(large?.bytes.count == 4_097 && large == records.first)
                #expect(try await store.removeForeign(in: .devices) == 3)
                #expect(try await store.records(in: .devices) == records)

                let events = try StoredStream("otaflash_events", client)
                for subject in ["otaflash.event.x", "otaflash.event.a.b.c.-1.e", "otaflash.event.a.b.c.1.!"] {
                    _ = try await events.store([1], subject: subject)
                }
                let event = try StoreContract.event("sim-a.b", attempt: 7, "confirmed")
                try await store.append(event)
                #expect(try await store.events(after: 0) == [StoredEvent(number: 4, event: event)])
            }
        }
    }

    @Test("an object under another digest than its own is damaged")
    func otherDigest() async throws {
        try await TestServer.run(.newest) { server in
            try await NATSClient.withClient(server.options) { client in
                let store = try NATSStore(client)
                try await store.create()
                let digest = SHA256.digest(of: [1, 2, 3])
                try await ObjectStore("otaflash_bundles", client).put([4, 5, 6], name: digest.description)
                await #expect(throws: StoreError(.objectDamaged, "")) { _ = try await store.object(digest) }
            }
        }
    }

    /// Runs `body` with two connections to a new store.
    private func withStores(
        _ version: TestServer.Version, _ settings: String = "", login: String = "",
        _ body: (NATSStore, NATSStore) async throws -> Void
    ) async throws {
        try await TestServer.run(version, settings) { server in
            var options = server.options
            options.servers = ["nats://\(login)localhost:\(server.port)"]
            try await NATSClient.withClient(options) { first in
                try await NATSStore(first).create()
                try await NATSClient.withClient(options) { second in
                    try await body(NATSStore(first), NATSStore(second))
                }
            }
        }
    }
}

/// Repeats `body` while a server that has just started does not answer.
private func untilReady<Result>(_ body: () async throws -> Result) async throws -> Result {
    while true { do { return try await body() } catch let error as StoreError where error.code == .unavailable {} }
}
