import NATS
import NATSTestSupport
import Testing

/// Three servers of version 2.15.1. A cluster of 2.9.10 accepts several writes with the same expected revision
/// (https://github.com/nats-io/nats-server/issues/4320).
@Suite("Cluster of three servers")
struct ClusterTests {
    @Test("of 12 writers, at most one wins each round, also while each server is killed and started again")
    func race() async throws {
        try await TestServer.withCluster(.newest) { servers in
            var options = servers[0].options
            options.servers = servers.map(\.url)
            options.requestTimeout = .seconds(2)
            let clients = try await clients(options, count: 3)
            let bucket = try KeyValueBucket("race", clients[0])
            var settings = KeyValueBucket.Settings()
            settings.replicas = 3
            try await untilReady { try await bucket.create(settings) }
            var acknowledged: Set<UInt64> = []
            for round in 0..<60 {
                // Two rounds later, the server is a member of the cluster again, or not yet.
                if round % 20 == 5 { await servers[round / 20].kill() }
                if round % 20 == 7 { try await servers[round / 20].start("s\(round / 20)") }
                let present = try await untilReady { try await bucket.get("a") }
                let revisions = await race(clients, expecting: present?.revision ?? 0)
                #expect(revisions.count <= 1, "round \(round): \(revisions)")
                #expect(acknowledged.isDisjoint(with: revisions), "a revision was acknowledged twice")
                acknowledged.formUnion(revisions)
            }
            // On a busy machine, many rounds end without an acknowledgement in time.
            #expect(acknowledged.count >= 5, "some rounds must have a winner")
            for client in clients { await client.close() }
        }
    }

    /// Writes with 12 tasks, and returns the acknowledged revisions.
    private func race(_ clients: [NATSClient], expecting revision: UInt64) async -> Set<UInt64> {
        await withTaskGroup(of: UInt64?.self) { group in
            for writer in 0..<12 {
                let client = clients[writer % clients.count]
                group.addTask {
                    try? await KeyValueBucket("race", client).write([UInt8(writer)], "a", expecting: revision)
                }
            }
            return await group.reduce(into: []) { if let revision = $1 { $0.insert(revision) } }
        }
    }

    private func clients(_ options: NATSOptions, count: Int) async throws -> [NATSClient] {
        var clients: [NATSClient] = []
        for _ in 0..<count { clients.append(try await NATSClient.open(options)) }
        return clients
    }
}
