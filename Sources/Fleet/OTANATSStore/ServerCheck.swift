public import NATS
internal import OTAStore

/// The result of a check whether NATS servers are suitable for the store of a fleet.
public struct ServerCheck: Sendable {
    /// The result of a race: in each round, several writers write the same key with the same expected revision.
    public struct Race: Sendable {
        public let rounds, writers: Int
        /// The number of servers that stored the records of the race.
        public let replicas: Int
        /// The number of rounds in which the server acknowledged more than one write. A suitable server has 0.
        public let unsafeRounds: Int
        /// The number of rounds in which the server acknowledged no write, for example because it elected a leader.
        public let emptyRounds: Int
    }

    /// The servers, in the order of the addresses in the connection's options.
    public let servers: [ServerInformation]
    /// Nil if no server has JetStream, or if the user may not create a bucket for the race.
    public let race: Race?

    /// The minimum size of a message that a server must accept: a chunk of an object has 128 KiB, and the headers need some more bytes.
    public static let minimumPayload = 262_144
    private static let rounds = 200
    private static let writers = 12

    /// Checks the servers at the addresses of the options.
    ///
    /// The race uses a bucket of its own, which is deleted at the end. In a cluster, at least three servers store this bucket.
    ///
    /// - Parameter replicas: the number of servers that store the records of the fleet.
    /// - Throws: `NATSError`.
    public static func run(_ options: NATSOptions, replicas: Int) async throws -> ServerCheck {
        var servers: [ServerInformation] = []
        for address in options.servers { servers.append(try await ServerInformation.read(from: address)) }
        guard servers.contains(where: \.hasJetStream) else { return ServerCheck(servers: servers, race: nil) }
        let isCluster = servers.contains { $0.cluster != nil }
        // A connection of its own for each writer would be slow. Three connections are enough for writes at the same time.
        var clients: [NATSClient] = []
        do {
            for number in 0..<max(3, min(5, options.servers.count)) {
                var own = options
                own.servers = [options.servers[number % options.servers.count]]
                clients.append(try await NATSClient.open(own))
            }
            let race = try await race(clients, replicas: isCluster ? max(3, replicas) : 1)
            for client in clients { await client.close() }
            return ServerCheck(servers: servers, race: race)
        } catch {
            for client in clients { await client.close() }
            throw error
        }
    }

    private static func race(_ clients: [NATSClient], replicas: Int) async throws(NATSError) -> Race? {
        let name = "otaflash_check_\(UInt64.random(in: 0...UInt64.max))"
        let buckets = try clients.map { client throws(NATSError) in try KeyValueBucket(name, client) }
        var settings = KeyValueBucket.Settings()
        settings.replicas = replicas
        settings.maximumBytes = 1 << 20
        do throws(NATSError) {
            try await untilReady { () throws(NATSError) in try await buckets[0].create(settings) }
        } catch  where error.code == .permissionDenied {
            return nil
        }
        var (unsafe, empty, expected) = (0, 0, UInt64(0))
        for _ in 0..<rounds {
            let revisions = await round(buckets, expecting: expected)
            if revisions.count > 1 { unsafe += 1 }
            if let last = revisions.max() {
                expected = last
            } else {
                empty += 1
                // The server may have stored a write without answering it, so read the current revision for the next round.
                expected = (try? await buckets[0].get("a"))?.flatMap { $0.revision } ?? expected
            }
        }
        try? await buckets[0].stream.delete()
        return Race(
            rounds: rounds, writers: writers, replicas: replicas, unsafeRounds: unsafe, emptyRounds: empty)
    }

    private static func round(_ buckets: [KeyValueBucket], expecting revision: UInt64) async -> [UInt64] {
        await withTaskGroup(of: UInt64?.self) { group in
            for writer in 0..<writers {
                let bucket = buckets[writer % buckets.count]
                group.addTask {
                    // A failed write is not repeated, because only the acknowledged writes count.
                    try? await bucket.stream.store(
                        [UInt8(writer)], subject: "$KV.\(bucket.name).a", expecting: revision)
                }
            }
            return await group.reduce(into: []) { if let revision = $1 { $0.append(revision) } }
        }
    }

    /// Repeats a request while the servers are not ready, for at most 20 s. A server that has just started, or a cluster without a leader,
    /// cannot create a stream.
    static func untilReady(_ body: () async throws(NATSError) -> Void) async throws(NATSError) {
        let begun = ContinuousClock.now
        while true {
            do throws(NATSError) { return try await body() } catch {
                let isTemporary: Bool =
                    switch error.code {
                    case .tryAgain, .noResponders, .timedOut, .notConnected, .disconnected: true
                    // 10005: not enough servers are ready for the replicas.
                    case .serverError: error.serverCode == 10005
                    default: false
                    }
                guard isTemporary, begun.duration(to: .now) < .seconds(20) else { throw error }
            }
            do { try await Task.sleep(for: .milliseconds(200), clock: .continuous) } catch {
                throw NATSError(.cancelled, "the task was cancelled")
            }
        }
    }
}
