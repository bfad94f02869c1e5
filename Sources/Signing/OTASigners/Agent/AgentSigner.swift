internal import Glibc
internal import OTAFirmware
public import OTASigning
internal import SystemPackage

/// An Ed25519 key in an SSH agent: OpenSSH's `ssh-agent`, a forwarded agent, or `gpg-agent`. The private key never leaves the agent.
public struct AgentSigner: Signer {
    public let publicKey: PublicKey
    private let agent: SSHAgent

    /// Finds a key in the agent.
    ///
    /// - Parameters:
    ///   - key: the ID of the key in 16 hex digits, or the path of its public key in PEM.
    ///   - agent: the agent that has the private key.
    /// - Throws: `no-agent`, `no-such-key`, `signer-failed`, `signer-refused`, `signer-protocol`; the errors of
    ///   `KeyFile.publicKey(at:option:)`; `wrong-algorithm` for a file with a key other than Ed25519.
    public init(_ key: String, in agent: SSHAgent) throws(KeyError) {
        let id = key.count == 16 ? Hex.decode(key).flatMap { KeyID(bytes: $0) } : nil
        var wanted = id
        if wanted == nil, !key.isEmpty { wanted = try Self.publicKey(at: FilePath(key)).id }
        let keys = try agent.keys()
        guard let found = keys.first(where: { $0.publicKey.id == wanted }) else {
            let named = wanted.map { "the SSH agent has no Ed25519 key \($0)" } ?? "agent: does not name a key"
            let others = keys.prefix(16).map { "\($0.publicKey.id) (\($0.comment))" }.joined(separator: ", ")
            throw KeyError(
                .noSuchKey,
                keys.isEmpty ? "\(named); the agent has no Ed25519 keys" : "\(named); the agent has: \(others)",
                hint: keys.isEmpty
                    ? "add a key to the agent, or unlock the agent (ssh-add -X): ssh-add ~/.ssh/id_ed25519"
                    : "use the ID of one of these keys: agent:\(keys[0].publicKey.id)")
        }
        publicKey = found.publicKey
        self.agent = agent
    }

    private static func publicKey(at path: FilePath) throws(KeyError) -> PublicKey {
        let key: ImagePublicKey
        do throws(KeyError) {
            key = try KeyFile.publicKey(at: path)
        } catch {
            let hint =
                "give the ID of the key (agent:0123456789abcdef), or its public key in PEM; agent: alone lists the keys"
            throw KeyError(error.code, error.context, hint: hint)
        }
        guard let key = key.bundleKey, key.algorithm == .ed25519 else {
            let isForBundles = key.bundleKey != nil
            throw KeyError(
                .wrongAlgorithm, "\(path): the key is for \(key.algorithm.name); a key in an SSH agent must be Ed25519",
                hint: isForBundles
                    ? "give the private key file, or a program that signs with ML-DSA: --key exec:PROGRAM"
                    : "create an Ed25519 key: ssh-keygen -t ed25519 -f release; add it to the agent: ssh-add release")
        }
        return key
    }

    /// Asks the agent for the signature of `message`. The agent may wait for the user, for example for a PIN.
    ///
    /// - Throws: `no-agent`, `signer-failed`, `signer-refused`, `signer-protocol`.
    public func sign(_ message: [UInt8], in domain: SignatureDomain) throws(KeyError) -> [UInt8] {
        try agent.signature(of: message, by: publicKey)
    }
}

/// An SSH agent. The environment variable `SSH_AUTH_SOCK` contains the path of the agent's socket.
public struct SSHAgent: Sendable {
    private let path: String
    /// The time limits for a request of the key list (`listLimit`) and for a request of a signature (`signLimit`).
    private let listLimit: Duration
    private let signLimit: Duration

    /// Stores the path of the agent's socket. This initializer does not connect to the agent.
    ///
    /// - Parameters:
    ///   - path: the path of the agent's Unix socket; nil if `SSH_AUTH_SOCK` is not set.
    ///   - listLimit: the time limit for the list of keys.
    ///   - signLimit: the time limit for a signature. The user may have to enter a PIN in this time.
    /// - Throws: `no-agent` if `path` is nil or empty.
    public init(
        at path: String?, listLimit: Duration = .seconds(10), signLimit: Duration = .seconds(120)
    ) throws(KeyError) {
        guard let path, !path.isEmpty else {
            throw KeyError(
                .noAgent, "SSH_AUTH_SOCK is not set, so there is no SSH agent",
                hint: "start an agent and add the key: eval \"$(ssh-agent)\" && ssh-add KEY")
        }
        self.path = path
        self.listLimit = listLimit
        self.signLimit = signLimit
    }

    /// Returns the Ed25519 keys in the agent.
    func keys() throws(KeyError) -> [AgentMessage.Key] {
        let answer = try answer(to: AgentMessage.listKeys, within: listLimit, "list its keys")
        do throws(AgentMessage.Fault) {
            return try AgentMessage.keys(in: answer)
        } catch {
            throw failure(error, refusal: "refused to list its keys", "unlock the agent: ssh-add -X")
        }
    }

    func signature(of message: [UInt8], by key: PublicKey) throws(KeyError) -> [UInt8] {
        // The agent refuses a request that is longer than `maximumLength`. The request contains the message, the key and lengths; 1024
        // bytes are enough for the key and the lengths.
        guard message.count <= AgentMessage.maximumLength - 1024 else {
            throw KeyError(
                .signerRefused,
                "an SSH agent signs at most \(AgentMessage.maximumLength - 1024) bytes; the message has \(message.count)",
                hint: "sign the digest of the image: omit --pure")
        }
        let answer = try answer(to: AgentMessage.sign(message, with: key), within: signLimit, "sign")
        do throws(AgentMessage.Fault) {
            return try AgentMessage.signature(in: answer)
        } catch {
            throw failure(
                error, refusal: "refused to sign with the key \(key.id)",
                "confirm the signature or enter the PIN when the agent asks, and check the key: ssh-add -L")
        }
    }

    private func answer(to request: [UInt8], within limit: Duration, _ task: String) throws(KeyError) -> [UInt8] {
        do throws(AgentConnection.Failure) {
            return try AgentConnection(to: path, limit: limit).answer(to: request)
        } catch {
            switch error {
            case .system(let number):
                throw KeyError(
                    .noAgent, "\(title) cannot be reached: \(String(cString: strerror(number)))",
                    hint: "check that the agent runs: ssh-add -L; or start one: eval \"$(ssh-agent)\" && ssh-add KEY")
            case .pathTooLong:
                throw KeyError(
                    .noAgent, "\(title): the path of the socket is too long",
                    hint: "use a shorter path: ssh-agent -a PATH")
            case .timeout:
                throw KeyError(
                    .signerFailed, "\(title) did not \(task) within \(limit.components.seconds) s",
                    hint: "check that no window of the agent waits for an answer; then run the command again")
            case .closed:
                throw failure(.malformed("no complete answer before it closed the connection"), refusal: "", "")
            case .tooLong(let length): throw failure(.malformed("an answer of \(length) bytes"), refusal: "", "")
            }
        }
    }

    private var title: String { "the SSH agent \(path)" }

    private func failure(_ fault: AgentMessage.Fault, refusal: String, _ hint: String) -> KeyError {
        switch fault {
        case .refused: KeyError(.signerRefused, "\(title) \(refusal)", hint: hint)
        case .malformed(let found):
            KeyError(
                .signerProtocol, "\(title) sent \(found)",
                hint: "check that SSH_AUTH_SOCK names an SSH agent: echo \"$SSH_AUTH_SOCK\"; ssh-add -L")
        }
    }
}
