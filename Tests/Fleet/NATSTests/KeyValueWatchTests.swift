import NATS
import NATSTestSupport
import Testing

@Suite("Watch of a bucket")
struct KeyValueWatchTests {
    @Test("a watch returns all present values, and then each change", arguments: TestServer.Version.allCases)
    func snapshotAndChanges(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, peer in
            for index in 0..<300 { _ = try await bucket.write([1], "key-\(index)", expecting: 0) }
            let last = try await bucket.write([2], "key-7", expecting: 8)
            var changes = try bucket.watch().makeAsyncIterator()
            #expect(try await changes.next() == .started)
            var keys: Set<String> = []
            while case .entry(let entry) = try await changes.next() { keys.insert(entry.key) }
            #expect(keys.count == 300)

            _ = try await bucket.write([3], "key-7", expecting: last)
            #expect(try await changes.nextEntry()?.value == [3])
            try await peer("delete", "devices", "key-9")
            let deleted = try #require(try await changes.nextEntry())
            #expect(deleted.key == "key-9" && deleted.isDeleted)
        }
    }

    @Test("a watch of an empty bucket ends its snapshot at once", arguments: TestServer.Version.allCases)
    func empty(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            var changes = try bucket.watch().makeAsyncIterator()
            #expect(try await changes.next() == .started)
            #expect(try await changes.next() == .snapshotEnded)
            _ = try await bucket.write([1], "a", expecting: 0)
            #expect(try await changes.nextEntry()?.key == "a")
        }
    }

    @Test("a watch with a filter returns only matching keys", arguments: TestServer.Version.allCases)
    func filter(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            for key in ["a.x", "b.x", "b.y"] { _ = try await bucket.write([1], key, expecting: 0) }
            var changes = try bucket.watch("b.*").makeAsyncIterator()
            #expect(try await changes.next() == .started)
            #expect(try await changes.nextEntry()?.key == "b.x")
            #expect(try await changes.nextEntry()?.key == "b.y")
            #expect(try await changes.next() == .snapshotEnded)
        }
    }

    @Test(
        "a watch starts again after the server was killed, and misses no value", arguments: TestServer.Version.allCases)
    func restart(_ version: TestServer.Version) async throws {
        try await TestServer.run(version) { server in
            try await NATSClient.withClient(server.options) { client in
                let bucket = try KeyValueBucket("devices", client)
                try await bucket.create()
                let first = try await bucket.write([1], "a", expecting: 0)
                var changes = try bucket.watch().makeAsyncIterator()
                while try await changes.next() != .snapshotEnded {}
                await server.kill()
                try await server.start()
                #expect(try await changes.next() == .started)
                #expect(try await changes.nextEntry()?.value == [1])
                #expect(try await changes.next() == .snapshotEnded)
                _ = try await bucket.write([2], "a", expecting: first)
                #expect(try await changes.nextEntry()?.value == [2])
            }
        }
    }

    @Test("a watch with 20,000 values of 1 kB receives all of them under the server's flow control")
    func flowControl() async throws {
        try await withBucket(.newest) { bucket, _ in
            let value = [UInt8](repeating: 1, count: 1_024)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<32 {
                    group.addTask {
                        for index in 0..<625 { _ = try await bucket.write(value, "\(writer).\(index)", expecting: 0) }
                    }
                }
                try await group.waitForAll()
            }
            var changes = try bucket.watch().makeAsyncIterator()
            var count = 0
            while let change = try await changes.next(), change != .snapshotEnded {
                if case .entry(let entry) = change, entry.value == value { count += 1 }
            }
            #expect(count == 20_000)
        }
    }

    @Test("a snapshot contains the keys that are replaced while it is read", arguments: TestServer.Version.allCases)
    func replacedKeys(_ version: TestServer.Version) async throws {
        try await withBucket(version) { bucket, _ in
            let value = [UInt8](repeating: 1, count: 65_536)
            for index in 0..<400 { _ = try await bucket.write(value, "key-\(index)", expecting: 0) }
            var changes = try bucket.watch().makeAsyncIterator()
            var revisions: [String: UInt64] = [:]
            while let change = try await changes.next(), change != .snapshotEnded {
                guard case .entry(let entry) = change else { continue }
                revisions[entry.key] = entry.revision
                guard entry.revision == 60 else { continue }
                // The server has sent the first of these values, but not the last ones, because of its flow control.
                for index in Array(0..<50) + Array(350..<400) {
                    _ = try await bucket.write([2], "key-\(index)", expecting: UInt64(index + 1))
                }
            }
            #expect(revisions.count == 400)
            #expect((350..<400).allSatisfy { revisions["key-\($0)"] == UInt64($0 + 101) })
        }
    }

    @Test("a cancelled watch ends with the error cancelled")
    func cancellation() async throws {
        try await withBucket(.debian) { bucket, _ in
            let (snapshots, ended) = AsyncStream.makeStream(of: Void.self)
            let task = Task {
                for try await change in try bucket.watch() where change == .snapshotEnded { ended.yield() }
            }
            for await _ in snapshots { break }
            task.cancel()
            await #expect(throws: NATSError(.cancelled, "")) { try await task.value }
        }
    }

    @Test("a watch throws closed when the connection is closed")
    func close() async throws {
        try await withBucket(.debian) { bucket, _ in
            var changes = try bucket.watch().makeAsyncIterator()
            while try await changes.next() != .snapshotEnded {}
            await bucket.client.close()
            await #expect(throws: NATSError(.closed, "")) { _ = try await changes.next() }
            #expect(try await changes.next() == nil)
        }
    }
}

extension KeyValueWatch.Iterator {
    /// Returns the next change if it is a value.
    mutating func nextEntry() async throws -> KeyValueEntry? {
        guard case .entry(let entry) = try await next() else { return nil }
        return entry
    }
}
