import NATS
import NATSTestSupport
import Testing

@Suite("Key-value buckets")
struct KeyValueBucketTests {
    @Test(
        "a bucket keeps values with revisions, and refuses a write with another revision",
        arguments: TestServer.Version.allCases)
    func compareAndSet(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            #expect(try await bucket.get("a") == nil)
            let first = try await bucket.write([1], "a", expecting: 0)
            let second = try await bucket.write([2], "a", expecting: first)
            #expect(second > first)
            await #expect(throws: NATSError(.conflict, "", serverCode: 10071)) {
                _ = try await bucket.write([3], "a", expecting: first)
            }
            await #expect(throws: NATSError(.conflict, "", serverCode: 10071)) {
                _ = try await bucket.write([3], "a", expecting: 0)
            }
            let present = try #require(try await bucket.get("a"))
            #expect(present.value == [2] && present.revision == second && present.key == "a" && !present.isDeleted)
        }
    }

    @Test("of 12 writers in 50 rounds, exactly one wins each round", arguments: TestServer.Version.allCases)
    func race(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            var revision = try await bucket.write([0], "race", expecting: 0)
            for _ in 0..<50 {
                let expected = revision
                let written = await withTaskGroup(of: UInt64?.self) { group in
                    for writer in 0..<12 {
                        group.addTask {
                            do throws(NATSError) {
                                return try await bucket.write([UInt8(writer)], "race", expecting: expected)
                            } catch {
                                #expect(error == NATSError(.conflict, "", serverCode: 10071))
                                return nil
                            }
                        }
                    }
                    return await group.reduce(into: [UInt64]()) { if let revision = $1 { $0.append(revision) } }
                }
                try #require(written.count == 1)
                revision = written[0]
            }
            #expect(try await bucket.get("race")?.revision == revision)
        }
    }

    @Test("the history of a key contains its last values, the oldest one first", arguments: TestServer.Version.allCases)
    func history(_ version: TestServer.Version) async throws {
        var settings = KeyValueBucket.Settings()
        settings.history = 3
        try await withBucket(version, settings) { bucket, _ in
            var revision: UInt64 = 0
            for value in 1...5 { revision = try await bucket.write([UInt8(value)], "a", expecting: revision) }
            _ = try await bucket.write([9], "ab", expecting: 0)
            #expect(try await bucket.history("a").map(\.value) == [[3], [4], [5]])
            #expect(try await bucket.history("b") == [])
        }
    }

    @Test("keys and entries list the present values", arguments: TestServer.Version.allCases)
    func lists(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, peer in
            #expect(try await bucket.entries() == [])
            for key in ["b", "a", "c.d"] { _ = try await bucket.write(Array(key.utf8), key, expecting: 0) }
            try await peer("delete", "devices", "b")
            #expect(try await bucket.keys() == ["a", "c.d"])
            #expect(try await bucket.entries().map(\.value) == [Array("a".utf8), Array("c.d".utf8)])
        }
    }

    @Test("a value is removed at the bucket's maximum age", arguments: TestServer.Version.allCases)
    func age(_ version: TestServer.Version) async throws {
        var settings = KeyValueBucket.Settings()
        settings.maximumAge = .seconds(1)
        try await withBucket(version, settings) { bucket, _ in
            _ = try await bucket.write([1], "a", expecting: 0)
            // The server removes the value, and the test polls, because no event reports the removal.
            while try await bucket.get("a") != nil {}
            _ = try await bucket.write([2], "a", expecting: 0)
        }
    }

    @Test(
        "a repeated creation is accepted, and one with other settings is refused",
        arguments: TestServer.Version.allCases)
    func creation(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            try await bucket.create()
            var settings = KeyValueBucket.Settings()
            settings.history = 2
            await #expect(throws: NATSError(.otherSettings, "", serverCode: 10058)) {
                try await bucket.create(settings)
            }
        }
    }

    @Test("a value over the limit of the bucket, and one over the limit of the server, are too large")
    func sizes() async throws {
        var settings = KeyValueBucket.Settings()
        settings.maximumValueSize = 1_000
        try await withBucket(.newest, settings) { bucket, _ in
            await #expect(throws: NATSError(.tooLarge, "", serverCode: 10054)) {
                _ = try await bucket.write(Array(repeating: 0, count: 1_001), "a", expecting: 0)
            }
            await #expect(throws: NATSError(.tooLarge, "")) {
                _ = try await bucket.write(Array(repeating: 0, count: 2 << 20), "a", expecting: 0)
            }
        }
    }

    @Test("a full bucket is reported as store-full", arguments: TestServer.Version.allCases)
    func full(_ version: TestServer.Version) async throws {
        var settings = KeyValueBucket.Settings()
        settings.maximumBytes = 4_096
        try await withBucket(version, settings) { bucket, _ in
            let value = [UInt8](repeating: 7, count: 3_000)
            _ = try await bucket.write(value, "a", expecting: 0)
            await #expect(throws: NATSError(.storeFull, "", serverCode: 10077)) {
                _ = try await bucket.write(value, "b", expecting: 0)
            }
        }
    }

    @Test("keys and names that could change a subject are refused before they are sent")
    func malformedKeys() async throws {
        try await withBucket(.debian) { bucket, _ in
            for key in ["", "a..b", ".a", "a b", "a\r\nPUB x 0", "*", "a.>", "ä"] {
                await #expect(throws: NATSError(.invalidArguments, "")) {
                    _ = try await bucket.write([], key, expecting: 0)
                }
                await #expect(throws: NATSError(.invalidArguments, "")) { _ = try await bucket.get(key) }
            }
            #expect(throws: NATSError(.invalidArguments, "")) { _ = try KeyValueBucket("a.b", bucket.client) }
        }
    }

    @Test(
        "a missing bucket is reported",
        arguments: TestServer.Version.allCases)
    func missing(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            var options = server.options
            options.requestTimeout = .milliseconds(300)
            try await NATSClient.withClient(options) { client in
                let missing = try KeyValueBucket("missing", client)
                await #expect(throws: NATSError(.noResponders, "")) {
                    _ = try await missing.write([], "a", expecting: 0)
                }
                // Old servers do not answer, and newer ones report that no stream answers.
                let expected = NATSError(version == .debian ? .timedOut : .noResponders, "")
                await #expect(throws: expected) { _ = try await missing.get("a") }
            }
            try await NATSClient.withClient(server.options) { client in
                let missing = try KeyValueBucket("missing", client)
                await #expect(throws: NATSError(.notFound, "", serverCode: 10059)) { _ = try await missing.keys() }
            }
        }
    }

    @Test(
        "nats-py reads our values, and we read its values and marks of deletion", arguments: TestServer.Version.allCases
    )
    func peer(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, peer in
            let revision = try await bucket.write(Array("ours".utf8), "a", expecting: 0)
            #expect(try await peer("get", "devices", "a") == "\(revision) ours")
            let theirs = try await peer("put", "devices", "b", "theirs")
            let entry = try #require(try await bucket.get("b"))
            #expect(entry.value == Array("theirs".utf8) && "\(entry.revision)" == theirs)
            #expect(try await peer("keys", "devices") == "a b")

            try await peer("delete", "devices", "b")
            #expect(try await bucket.get("b")?.isDeleted == true)
            _ = try await bucket.write(Array("again".utf8), "b", expecting: 0)
            #expect(try await bucket.get("b")?.value == Array("again".utf8))

            try await peer("create-bucket", "theirs", "2")
            let other = try KeyValueBucket("theirs", bucket.client)
            _ = try await other.write([1], "x", expecting: 0)
            #expect(try await other.entries().map(\.key) == ["x"])
        }
    }
}

/// Runs `body` with the new bucket `devices` on a new server.
func withBucket(
    _ version: TestServer.Version, _ settings: KeyValueBucket.Settings = .init(),
    _ body: @Sendable (KeyValueBucket, Peer) async throws -> Void
) async throws {
    try await TestServer.run(version) { server in
        try await NATSClient.withClient(server.options) { client in
            let bucket = try KeyValueBucket("devices", client)
            try await bucket.create(settings)
            try await body(bucket, Peer(server: server))
        }
    }
}
