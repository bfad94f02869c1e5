internal import OTAStore

/// The configuration of a NATS server for a fleet, with two accounts.
///
/// In one account, a user can make the server write to any stream of this account: the user sends a permitted request, and names a subject
/// of the stream as the subject for the reply. So the records of operators and controllers are in the account OPS, and the records of
/// gateways are in the account FLEET. The account FLEET can only read from OPS, and for such a request the server replaces the subject for
/// the reply.
public struct ServerConfiguration: Sendable {
    /// A user of the server. The key is the public part of an NKey (`U…`).
    public struct User: Sendable {
        public let name: String
        public let key: String
        public let inboxPrefix: String

        public init(name: String, key: String, inboxPrefix: String) {
            (self.name, self.key, self.inboxPrefix) = (name, key, inboxPrefix)
        }
    }

    /// The buckets of the account FLEET. The other buckets are in the account OPS.
    static let gatewayBuckets: Set<Bucket> = [.devices, .sightings, .gateways]
    /// The API prefix with which the account OPS administers the streams of the account FLEET.
    static let gatewayAPIPrefix = "JS.FLEET.API"

    private static let operatorStreams = ["KV_otaflash_releases", "KV_otaflash_rollouts", "KV_otaflash_progress"]
    private static let gatewayStreams = [
        "KV_otaflash_devices", "KV_otaflash_sightings", "KV_otaflash_gateways", "otaflash_events",
    ]
    private static let objects = "OBJ_otaflash_bundles"

    /// The address and port of the server.
    public var listen: String
    /// The folder of the server for the streams.
    public var storeFolder: String
    public var operators: [User]
    public var controllers: [User]
    public var gateways: [User]

    public init(
        listen: String, storeFolder: String, operators: [User], controllers: [User], gateways: [User]
    ) {
        (self.listen, self.storeFolder) = (listen, storeFolder)
        (self.operators, self.controllers, self.gateways) = (operators, controllers, gateways)
    }

    /// The text of the configuration file.
    public var text: String {
        let shared = (Self.operatorStreams + [Self.objects]).flatMap(Self.direct)
        let lent =
            Self.gatewayStreams.flatMap(Self.direct) + ["$KV.otaflash_devices.>", "$JS.API.INFO", "$JS.API.STREAM.>"]
        let users = operators.map(Self.operatorUser) + controllers.map(Self.controllerUser)
        return """
            # The NATS server of a fleet of otaflash. Start it: nats-server -c FILE

            listen: \(Self.quoted(listen))
            jetstream {
              store_dir: \(Self.quoted(storeFolder))
              # Server 2.10 and later: write each record to the disk before it is acknowledged. 2.9 does not know this line.
              # sync_interval: always
            }

            # Needed if gateways are on other machines. Then use tls://HOST:PORT and --ca.
            # tls { cert_file: "server.pem", key_file: "server.key" }

            accounts {
              # Releases, rollouts, progress and bundles. Gateways can only read them.
              OPS {
                jetstream: enabled
                users: [
            \(users.joined(separator: "\n"))
                ]
                exports: [
            \(Self.exports(shared, to: "FLEET"))
                ]
                imports: [
            \(Self.imports(lent, from: "FLEET"))
                ]
              }

              # Records of devices and gateways, and the history. The limit leaves the rest of the disk to the operators, so that they can
              # end a rollout also if a gateway fills the store.
              FLEET {
                jetstream { max_file: 2G }
                users: [
            \(gateways.map(Self.gatewayUser).joined(separator: "\n"))
                  # For another gateway, add such an entry, and reload the server: nats-server --signal reload
                ]
                exports: [
            \(Self.exports(lent, to: "OPS"))
                ]
                imports: [
            \(Self.imports(shared, from: "OPS"))
                ]
              }
            }

            """
    }

    /// The line of a gateway in the account FLEET. A gateway can write devices, its own presence and its own events.
    public static func gatewayUser(_ user: User) -> String {
        line(
            "The gateway \(user.name)", user,
            [
                "$KV.otaflash_devices.>", "$KV.otaflash_gateways.\(user.name)", "$KV.otaflash_sightings.*.\(user.name)",
                "otaflash.event.*.*.\(user.name).>", "$JS.API.DIRECT.GET.>",
                "$JS.API.CONSUMER.CREATE.KV_otaflash_devices", "$JS.FC.KV_otaflash_devices.>",
            ])
    }

    private static func operatorUser(_ user: User) -> String {
        line(
            "An operator: creates the store, and writes releases and rollouts", user,
            ["$KV.>", "$O.otaflash_bundles.>", "$JS.API.>", "$JS.FC.>", "\(gatewayAPIPrefix).>"])
    }

    private static func controllerUser(_ user: User) -> String {
        line(
            "A controller: writes the progress of rollouts", user,
            ["$KV.otaflash_progress.>", "$JS.API.DIRECT.GET.>"])
    }

    private static func line(_ title: String, _ user: User, _ subjects: [String]) -> String {
        """
              # \(title)
              { nkey: \(user.key), permissions: {
                  publish: [\(subjects.map(quoted).joined(separator: ", "))],
                  subscribe: [\(quoted("\(user.inboxPrefix).>"))] } }
        """
    }

    private static func direct(_ stream: String) -> [String] {
        ["$JS.API.DIRECT.GET.\(stream)", "$JS.API.DIRECT.GET.\(stream).>"]
    }

    private static func exports(_ subjects: [String], to account: String) -> String {
        subjects.map { "      { service: \(quoted($0)), accounts: [\(account)] }" }.joined(separator: "\n")
    }

    private static func imports(_ subjects: [String], from account: String) -> String {
        subjects.map { subject in
            // Both accounts have an API of their own, so the API of the other account needs other subjects. The server refuses to import all
            // of it ($JS.API.>), because both accounts import a part of the other one's API.
            let isAdministration = !subject.contains("DIRECT.GET") && subject.hasPrefix("$JS.API")
            let own = subject.replacing("$JS.API", with: gatewayAPIPrefix)
            let target = isAdministration ? ", to: \(quoted(own))" : ""
            return "      { service: { account: \(account), subject: \(quoted(subject)) }\(target) }"
        }.joined(separator: "\n")
    }

    /// Quotes a text of the configuration file.
    private static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }
}
