/// The settings of a connection to NATS servers.
public struct NATSOptions: Sendable {
    /// The addresses of the servers: `nats://HOST:PORT`, or `tls://HOST:PORT` for a connection that must be encrypted. The library
    /// finds the other servers of a cluster itself.
    public var servers: [String]
    /// The name of this client in the server's reports: letters, digits, `_`, `-` and `.`.
    public var name = "otaflash"
    /// The path of a PEM file with the certificates of the trusted CAs. With a path, every connection must be encrypted. Without a path,
    /// the CAs of the system are trusted. The name in the server's certificate must match the host in the address.
    public var certificateAuthority: String?
    /// The path of a file with an NKey seed of a user (`SU…`), and perhaps the JWT of the user (`*.creds`). The file is read each time the
    /// library connects, so it can be replaced before the JWT expires. nil: this program does not identify itself to the server.
    public var credentials: String?
    /// The first tokens of the subjects for replies. Each user should have a prefix of its own, which only this user may subscribe to.
    /// With the common prefix `_INBOX`, each user can read the replies to all users.
    public var inboxPrefix = "_INBOX"

    /// The maximum time to connect to one server.
    public var connectTimeout = Duration.seconds(5)
    /// The default timeout of a request: the maximum time to wait for its reply.
    public var requestTimeout = Duration.seconds(5)
    /// The time between two pings of the library. After two pings without an answer, the connection counts as lost.
    public var pingInterval = Duration.seconds(5)
    /// The maximum time for a write to the socket. After this time, the connection counts as lost.
    public var writeDeadline = Duration.seconds(5)
    /// The wait between two rounds of attempts to reach all servers. With one server, this is the wait before each attempt. The library
    /// adds a random time that is shorter than this wait.
    public var reconnectWait = Duration.seconds(1)

    public init(servers: [String]) { self.servers = servers }
}

extension NATSOptions {
    /// Uses the credentials in a file: a user's JWT and seed (`*.creds`), or an NKey seed of a user (`SU…`). Also sets ``inboxPrefix`` to
    /// `_INBOX_` and the user's public key (``inboxPrefix(ofUser:)``), so that each user has a prefix of its own.
    ///
    /// - Returns: the public key of the user (`U…`).
    /// - Throws: `invalidArguments` if the file cannot be read or contains no seed of a user.
    @discardableResult public mutating func useCredentials(inFile path: String) throws(NATSError) -> String {
        let key = try NKey.User(file: path).key
        credentials = path
        inboxPrefix = Self.inboxPrefix(ofUser: key)
        return key
    }

    /// Returns the inbox prefix that ``useCredentials(inFile:)`` sets for a user.
    ///
    /// - Parameter key: the public key of the user (`U…`).
    public static func inboxPrefix(ofUser key: String) -> String { "_INBOX_\(key)" }

    /// Checks the values that libnats does not check.
    func check() throws(NATSError) {
        guard !servers.isEmpty else { throw NATSError(.invalidArguments, "no address of a NATS server is given") }
        for server in servers {
            guard server.hasPrefix("nats://") || server.hasPrefix("tls://"),
                !server.utf8.contains(where: { $0 <= 0x20 })
            else {
                throw NATSError(
                    .invalidArguments,
                    "'\(Self.withoutPassword(server))' is not the address of a NATS server (example: tls://nats.example.com:4222)"
                )
            }
        }
        // libnats writes the name into JSON and does not escape it.
        guard Subject.isToken(name.replacing(".", with: "-")) else {
            throw NATSError(.invalidArguments, "'\(name)' is not a name for a NATS client")
        }
        guard Subject.isLiteral(inboxPrefix) else {
            throw NATSError(
                .invalidArguments, "'\(inboxPrefix)' is not a prefix for reply subjects (example: _INBOX_berlin-7)")
        }
    }

    /// The addresses for messages, without user names and passwords.
    package var addresses: String { servers.map(Self.withoutPassword).joined(separator: ", ") }

    private static func withoutPassword(_ server: String) -> String {
        guard let at = server.lastIndex(of: "@"), let scheme = server.firstRange(of: "://") else { return server }
        return String(server[..<scheme.upperBound] + server[server.index(after: at)...])
    }
}

/// The rules for subjects. libnats writes the subject of a message into the protocol without a check, so a line break in a subject would
/// start another command.
enum Subject {
    /// Whether `text` is one token: 1 to 128 letters, digits, `_` and `-`.
    static func isToken(_ text: some StringProtocol) -> Bool {
        !text.isEmpty && text.utf8.count <= 128 && text.utf8.allSatisfy(isTokenCharacter)
    }

    /// Whether `text` is a subject without wildcards.
    static func isLiteral(_ text: String) -> Bool {
        isSubject(text) && !text.utf8.contains { $0 == 0x2A || $0 == 0x3E }
    }

    /// True if `text` is a subject: at most 512 visible ASCII characters, in tokens that are separated by dots. A token can be the wildcard
    /// `*`, and the last token can be the wildcard `>`.
    static func isSubject(_ text: String) -> Bool {
        guard text.utf8.count <= 512, text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else { return false }
        let tokens = text.split(separator: ".", omittingEmptySubsequences: false)
        return tokens.enumerated().allSatisfy { index, token in
            if token == "*" { return true }
            if token == ">" { return index == tokens.count - 1 }
            return !token.isEmpty && !token.utf8.contains { $0 == 0x2A || $0 == 0x3E }
        }
    }

    static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
        default: false
        }
    }
}
