import Glibc
import OTAClient
import OTASigners
import OTASigning
import SystemPackage

/// The place of a private key: the value of `--key`, `--from` or `--in`.
enum KeyLocation {
    case file(FilePath)
    /// The name of an environment variable that contains the PEM text.
    case environment(String)
    /// A key in a PKCS#11 token.
    case token(TokenURI)
    /// A program that otaflash starts to create a signature.
    case program(String)
    /// A key in an SSH agent: a key ID, or the path of a public key.
    case agent(String)

    /// Parses the value of an option.
    ///
    /// - Throws: `bad-key-uri` if `text` starts with `pkcs11:` but is not a valid URI of a key.
    init(_ text: String) throws(KeyError) {
        if text.hasPrefix(TokenURI.scheme) {
            self = .token(try TokenURI(text))
        } else if text.hasPrefix("exec:") {
            self = .program(String(text.dropFirst("exec:".count)))
        } else if text.hasPrefix("agent:") {
            self = .agent(String(text.dropFirst("agent:".count)))
        } else if text.hasPrefix("env:") {
            self = .environment(String(text.dropFirst("env:".count)))
        } else {
            self = .file(FilePath(text))
        }
    }
}

/// Finds the private keys of `--key` and `--from`. A passphrase from a file descriptor or an environment variable is read once, and is
/// used for all keys. On a terminal, the user types a passphrase for each encrypted key.
struct SigningKeys {
    let passphrases: PassphraseSource
    let tokens: Tokens
    private var passphrase: Passphrase?

    init(passphrases: PassphraseSource, pins: any PINSource) {
        self.passphrases = passphrases
        tokens = Tokens(defaultModule: Environment.value("OTAFLASH_PKCS11_MODULE"), pins: pins)
    }

    /// Returns a private key that can sign bundles.
    ///
    /// - Parameter name: the place of the key (`KeyLocation`).
    /// - Throws: `KeyError`, `Failure`.
    mutating func key(at name: String) throws -> any Signer {
        switch try KeyLocation(name) {
        case .token(let uri): return try tokens.signer(at: uri, for: [.ed25519]).bundleSigner()
        case .program(let program): return try ProgramSigner(program)
        case .agent(let key): return try Self.agentKey(key)
        case .file, .environment: break
        }
        return try read(name) { (text, passphrase) throws(KeyError) in
            do throws(KeyError) {
                return try PrivateKey(pem: text, passphrase: passphrase)
            } catch {
                guard error.code == .wrongAlgorithm,
                    let key = try? ImagePrivateKey(pem: text, passphrase: passphrase)
                else { throw error }
                throw KeyError(
                    error.code, "the key is for \(key.publicKey.algorithm.name); a bundle requires Ed25519 or ML-DSA",
                    hint:
                        "create an Ed25519 key: otaflash keygen NAME; this key signs MCUboot images: otaflash sign --as mcuboot"
                )
            }
        }
    }

    /// Returns a private key that can sign MCUboot images.
    ///
    /// - Parameter name: the place of the key (`KeyLocation`).
    /// - Throws: `KeyError`, `Failure`.
    mutating func imageKey(at name: String) throws -> any ImageSigner {
        switch try KeyLocation(name) {
        case .token(let uri): return try tokens.signer(at: uri)
        case .program(let program): return try ProgramSigner(program).imageSigner()
        case .agent(let key): return try Self.agentKey(key).imageSigner()
        case .file, .environment: break
        }
        return try read(name) { (text, passphrase) throws(KeyError) in
            try ImagePrivateKey(pem: text, passphrase: passphrase)
        }
    }

    /// Returns the public key of a private key of any algorithm, and the place of the private key as a value for `--key`.
    ///
    /// - Parameter name: the place of the private key (`KeyLocation`).
    /// - Throws: `KeyError`, `Failure`.
    mutating func publicKey(at name: String) throws -> (key: ImagePublicKey, location: String) {
        switch try KeyLocation(name) {
        case .token(let uri):
            let signer = try tokens.signer(at: uri)
            return (signer.publicKey, signer.location)
        case .program, .agent: return (ImagePublicKey(try key(at: name).publicKey), name)
        case .file, .environment: break
        }
        let key = try read(name) { (text, passphrase) throws(KeyError) in
            try ImagePublicKey(ofPrivateKey: text, passphrase: passphrase)
        }
        return (key, name)
    }

    private static func agentKey(_ key: String) throws(KeyError) -> AgentSigner {
        try AgentSigner(key, in: SSHAgent(at: Environment.value("SSH_AUTH_SOCK")))
    }

    /// Reads a key and, if the key is encrypted, its passphrase.
    ///
    /// - Parameter parse: parses the key. It throws `passphraseRequired` if the key is encrypted and the passphrase is nil.
    private mutating func read<Key>(
        _ name: String, _ parse: (SecretBytes, Passphrase?) throws(KeyError) -> Key
    ) throws -> Key {
        let text = try Self.text(of: name)
        if let key = try Self.opened(text, passphrase, name, parse) { return key }
        let secret = try passphrases.passphrase(for: name)
        if case .terminal = passphrases {} else { passphrase = secret }
        guard let key = try Self.opened(text, secret, name, parse) else {
            throw KeyError(.passphraseRequired, "\(name): the key is encrypted with a passphrase")
        }
        return key
    }

    /// Parses a key. Returns nil if the key is encrypted and `passphrase` is nil.
    private static func opened<Key>(
        _ text: SecretBytes, _ passphrase: Passphrase?, _ name: String,
        _ parse: (SecretBytes, Passphrase?) throws(KeyError) -> Key
    ) throws(KeyError) -> Key? {
        do {
            return try parse(text, passphrase)
        } catch {
            if error.code == .passphraseRequired, passphrase == nil { return nil }
            throw error.at(name)
        }
    }

    private static func text(of name: String) throws -> SecretBytes {
        guard case .environment(let variable) = try KeyLocation(name) else {
            try StandardFile.refuse(
                name, "a private key cannot come from standard input",
                hint: "give a file; or PEM text in an environment variable: --key env:NAME")
            return try KeyFile.privateKeyText(at: FilePath(name))
        }
        guard !variable.isEmpty else {
            throw Failure.usage("env: names no environment variable", hint: "give its name: --key env:NAME")
        }
        guard let value = getenv(variable) else {
            throw KeyError(
                .noSuchFile, "the environment variable \(variable) is not set",
                hint: "set it to the PEM text of a private key, or give a file: --key FILE")
        }
        return SecretBytes(copying: UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}
