import NATS
import NATSTestSupport
import Testing

@Suite("Object stores")
struct ObjectStoreTests {
    /// The bytes that `content` in peer.py also returns.
    static func content(_ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: $0 * 31 + $0 / 251) }
    }

    static let malformedDescriptions = [
        "", "{", "[]", #"{"name":"a"}"#,
        #"{"name":"b","bucket":"bundles","nuid":"x","size":0,"chunks":0,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}"#,
        #"{"name":"a","bucket":"bundles","nuid":">","size":0,"chunks":0,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}"#,
        #"{"name":"a","bucket":"bundles","nuid":"x","size":-1,"chunks":0,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}"#,
        #"{"name":"a","bucket":"bundles","nuid":"x","size":9,"chunks":99,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}"#,
        #"{"name":"a","bucket":"bundles","nuid":"x","size":1e30,"chunks":1,"digest":"SHA-256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="}"#,
        #"{"name":"a","bucket":"bundles","nuid":"x","size":0,"chunks":0,"digest":"SHA-256=47DEQg=="}"#,
        #"{"name":"a","bucket":"bundles","nuid":"x","size":0,"chunks":0}"#,
    ]
    /// Sizes around the limits of a chunk.
    static let sizes = [0, 1, 131_071, 131_072, 131_073, 1_000_000]

    @Test("an object of any size is read back", arguments: TestServer.Version.allCases)
    func roundTrip(_ version: TestServer.Version) async throws {
        try await withStore(version) { store, _ in
            for size in Self.sizes {
                let description = try await store.put(Self.content(size), name: "object \(size)")
                #expect(description.size == size && description.chunks == (size + 131_071) / 131_072)
                #expect(try await store.get("object \(size)") == Self.content(size))
            }
            #expect(try await store.get("missing") == nil)
        }
    }

    @Test("nats-py reads our objects, and we read its objects", arguments: TestServer.Version.allCases)
    func peer(_ version: TestServer.Version) async throws {
        try await withStore(version) { store, peer in
            let description = try await store.put(Self.content(300_000), name: "ours")
            let digest = description.digest.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            #expect(try await peer("get-object", "bundles", "ours") == "300000 \(digest)")
            for size in [1, 131_072, 300_000] {
                try await peer("put-object", "bundles", "theirs \(size)", "\(size)")
                #expect(try await store.get("theirs \(size)") == Self.content(size))
            }
            try await peer("create-store", "theirs")
            let theirs = try ObjectStore("theirs", store.stream.client)
            try await peer("put-object", "theirs", "a", "200000")
            #expect(try await theirs.get("a") == Self.content(200_000))
        }
    }

    @Test(
        "a repeated put stores nothing, and another object of the same name replaces the first",
        arguments: TestServer.Version.allCases)
    func replacement(_ version: TestServer.Version) async throws {
        try await withStore(version) { store, _ in
            let first = try await store.put(Self.content(200_000), name: "a")
            #expect(try await store.put(Self.content(200_000), name: "a") == first)
            let second = try await store.put(Self.content(140_000), name: "a")
            #expect(second.identifier != first.identifier)
            #expect(try await store.get("a") == Self.content(140_000))
            let chunk = try await store.stream.next(from: 1, filter: "$O.bundles.C.\(first.identifier)")
            #expect(chunk == nil, "the chunks of the replaced object must be removed")
        }
    }

    @Test("an object whose digest or size is wrong is refused", arguments: TestServer.Version.allCases)
    func corruption(_ version: TestServer.Version) async throws {
        try await withStore(version) { store, peer in
            _ = try await store.put(Self.content(200_000), name: "digest")
            try await peer("corrupt-object", "bundles", "digest")
            await #expect(throws: NATSError(.corruptObject, "")) { _ = try await store.get("digest") }

            // The server has lost the chunks.
            let description = try await store.put(Self.content(200_000), name: "size")
            let subject = "$O.bundles.C.\(description.identifier)"
            try await store.stream.purge(subject: subject)
            await #expect(throws: NATSError(.corruptObject, "")) { _ = try await store.get("size") }
            await #expect(throws: NATSError(.tooLarge, "")) { _ = try await store.get("size", limit: 199_999) }
            _ = try await store.put(Self.content(200_000), name: "size")
            #expect(try await store.get("size") == Self.content(200_000), "the next put repairs the object")
        }
    }

    @Test("a malformed description is refused", arguments: malformedDescriptions)
    func malformed(_ text: String) async throws {
        try await withStore(.debian) { store, _ in
            _ = try await store.stream.store(Array(text.utf8), subject: "$O.bundles.M.YQ==")
            await #expect(throws: NATSError(.protocolError, "")) { _ = try await store.get("a") }
        }
    }
}

/// Runs `body` with the new object store `bundles` on a new server.
private func withStore(
    _ version: TestServer.Version, _ body: @Sendable (ObjectStore, Peer) async throws -> Void
) async throws {
    try await TestServer.run(version) { server in
        try await NATSClient.withClient(server.options) { client in
            let store = try ObjectStore("bundles", client)
            try await store.create()
            try await body(store, Peer(server: server))
        }
    }
}
