import ArgumentParser
import NATS
import OTACommands
import OTANATSStore
import OTAStore

/// The command `fleet check`, which checks whether NATS servers are suitable for a fleet.
struct FleetCheck: Command {
    static let name = "fleet check"
    static let configuration = CommandConfiguration(
        commandName: "check", abstract: "Check that a NATS server is suitable for the store of a fleet.",
        discussion: """
            Example: otaflash fleet check --server nats://127.0.0.1:4222 \\
                       --credentials operator.nk

            The server is required: --server or $\(ServerOptions.variable).

            check shows the version of each given server, whether it has JetStream (the storage of NATS), and its maximum message \
            size (max_payload, at least 256 KiB). If the server is suitable, check also shows which records of the store this user \
            can read and write.

            Race: in each of 200 rounds, 12 writers try to write the same record at the same time. A server that accepts more than \
            one write in a round is not suitable. The race uses a bucket (a table of records) of its own, and deletes it at the \
            end. The user of operator.nk ('otaflash fleet init --config') has the permission to create a bucket. Without this permission, check does not run the race, and \
            the exit status depends only on the other checks.

            Exit 0: the server is suitable and has the store. Exit 77: the server is not suitable, refuses the user, or has a \
            certificate that is not trusted; or the user may not read the store. Exit 69: the server cannot be reached, or has no \
            store ('otaflash fleet init' creates it).
            """)

    @OptionGroup var server: ServerOptions
    @OptionGroup(title: "Output options") var options: OutputOptions

    func answer(_ console: Console) async throws -> FleetCheckAnswer {
        try server.require()
        let connection = try server.connection()
        return try await server.withClient { client in
            let store = try NATSStore(client)
            let replicas = try? await store.replicas()
            let check = try await ServerCheck.run(connection, replicas: replicas ?? 1)
            var answer = FleetCheckAnswer(check, addresses: server.addresses)
            if answer.failure == nil { await answer.examine(store) }
            return answer
        }
    }
}

/// The result of `fleet check`, and a part of the result of `fleet init`.
struct FleetCheckAnswer: CommandAnswer {
    struct Server: Encodable, Sendable {
        let address, version: String
        let cluster: String?
        let jetstream: Bool
        let maxPayload: Int
    }
    struct Race: Encodable, Sendable {
        let rounds, writers, replicas, unsafe: Int
    }
    struct Store: Encodable, Sendable {
        let readable, writable: [String]
        /// The number of servers that store each record; nil if this user may not read it.
        let replicas: Int?
    }

    let servers: [Server]
    /// The result of the write race (``ServerCheck``); nil if this user may not create a bucket, or if no server has JetStream.
    let race: Race?
    /// Nil if the server is not suitable, or does not have the store.
    private(set) var store: Store?
    private(set) var failure: Failure?

    private enum CodingKeys: CodingKey { case servers, race, store }

    init(_ check: ServerCheck, addresses: [String]) {
        servers = zip(addresses, check.servers).map { address, server in
            Server(
                address: NATSOptions(servers: [address]).addresses, version: server.version, cluster: server.cluster,
                jetstream: server.hasJetStream, maxPayload: server.maximumPayload)
        }
        race = check.race.map {
            Race(rounds: $0.rounds, writers: $0.writers, replicas: $0.replicas, unsafe: $0.unsafeRounds)
        }
        failure = unsuitable(check)
    }

    /// Examines the access of this user to the store.
    mutating func examine(_ store: NATSStore) async {
        do throws(StoreError) {
            let access = try await store.access()
            self.store = Store(
                readable: access.readable.map(\.rawValue), writable: access.writable.map(\.rawValue),
                replicas: try? await store.replicas())
            // Each command and each gateway reads these buckets.
            let needed: [Bucket] = [.releases, .rollouts, .progress, .devices]
            if let bucket = needed.first(where: { !access.readable.contains($0) }) {
                failure = Failure(
                    "store-access-refused", .refused, "this user may not read the bucket otaflash_\(bucket.rawValue)",
                    hint:
                        "check the user in the configuration of the server; otaflash fleet init --config FILE writes one"
                )
            }
        } catch {
            failure = error.failure
        }
    }

    private func unsuitable(_ check: ServerCheck) -> Failure? {
        func failure(_ text: String, _ hint: String) -> Failure {
            Failure("server-unsuitable", .refused, text, hint: hint)
        }
        guard servers.contains(where: \.jetstream) else {
            return failure(
                "JetStream is not enabled on the server",
                "add a line to the configuration of the server, and restart it: jetstream { store_dir: \"/var/lib/nats\" }"
            )
        }
        if let server = servers.first(where: { $0.maxPayload < ServerCheck.minimumPayload }) {
            return failure(
                "the server \(server.address) accepts only messages of \(server.maxPayload) bytes, and \(ServerCheck.minimumPayload) are needed",
                "increase max_payload in the configuration of the server")
        }
        if let race, race.unsafe > 0 {
            return failure(
                "the server accepted more than one of \(race.writers) writes with the same expected revision, in \(race.unsafe) of "
                    + "\(race.rounds) rounds",
                "use one server instead of a cluster, or install a later nats-server in the cluster; clusters of 2.9 have this error"
            )
        }
        return nil
    }

    var lines: [TerminalLine] {
        var rows = servers.map { server in
            let place = server.cluster.map { "in the cluster \($0)" } ?? "no cluster"
            return (
                "server",
                "\(server.address): version \(server.version), \(place), JetStream \(server.jetstream ? "on" : "off"), "
                    + "max_payload \(server.maxPayload)"
            )
        }
        rows.append(
            race.map {
                (
                    "race",
                    "\($0.rounds) rounds of \($0.writers) writers, \(Figures.count($0.replicas, "replica")): \($0.unsafe) unsafe"
                )
            } ?? ("race", "not run" + (failure == nil ? ": this user may not create a bucket" : "")))
        if let store {
            rows.append(("replicas", store.replicas.map { "\($0)" } ?? "not shown to this user"))
            rows.append(("can read", store.readable.joined(separator: ", ")))
            rows.append(("can write", store.writable.isEmpty ? "-" : store.writable.joined(separator: ", ")))
        }
        return TextTable.pairs(rows.map { ($0.0, $0.1) })
    }
}
