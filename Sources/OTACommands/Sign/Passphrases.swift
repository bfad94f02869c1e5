import ArgumentParser
import Glibc
import OTASigning
import SystemPackage

/// The options for the source of a private key's passphrase. The default source is the terminal.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Read the passphrase of the private key from the first line of this file descriptor (example: 3). Without this option and "
                + "--passphrase-env, otaflash asks for the passphrase on the terminal.",
            valueName: "n"),
        transform: WholeNumber.in(0...Int32.max))
    var passphraseFd: Int32?

    @Option(
        help: ArgumentHelp(
            "Read the passphrase of the private key from this environment variable (example: KEY_PASSPHRASE).",
            valueName: "name"))
    var passphraseEnv: String?

    func validate() throws {
        if passphraseFd != nil, passphraseEnv != nil {
            throw ValidationError("'--passphrase-fd' and '--passphrase-env' cannot be used together.")
        }
        // The error message does not contain the value, because the value may be the passphrase itself.
        let isName = passphraseEnv?.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") } ?? true
        if !isName || passphraseEnv?.isEmpty == true {
            throw ValidationError("The value of --passphrase-env is not the name of an environment variable.")
        }
    }

    var isGiven: Bool { passphraseFd != nil || passphraseEnv != nil }

    var source: PassphraseSource {
        if let passphraseFd { return .descriptor(passphraseFd) }
        if let passphraseEnv { return .environment(passphraseEnv) }
        return .terminal
    }
}

/// The source of a passphrase. An argument is never the source, because every user of the computer can read arguments.
enum PassphraseSource {
    case descriptor(Int32)
    case environment(String)
    case terminal

    static let passphraseHint =
        "use --passphrase-fd N or --passphrase-env NAME, or enter the passphrase on a terminal"

    /// Reads the passphrase.
    ///
    /// - Parameters:
    ///   - what: the name of the key, for the prompt.
    ///   - isNew: true for a new key. The terminal then prompts for the passphrase twice.
    /// - Throws: `Failure`; `KeyError` for an unusable passphrase.
    func passphrase(for what: String, isNew: Bool = false) throws -> Passphrase {
        switch self {
        case .descriptor(let number): return try Passphrase(Self.firstLine(of: FileDescriptor(rawValue: number)))
        case .environment(let name):
            guard let text = getenv(name) else { throw Self.none("the environment variable \(name) is not set") }
            let bytes = UnsafeRawBufferPointer(start: text, count: strlen(text))
            return try Passphrase(SecretBytes(copying: bytes))
        case .terminal:
            let first = try TerminalPrompt.secret("Passphrase for \(what): ")
            if isNew {
                let second = try TerminalPrompt.secret("Repeat the passphrase: ")
                guard Self.equal(first, second) else {
                    throw Failure(
                        "passphrase-mismatch", .refused, "the two passphrases differ",
                        hint: "nothing was written; run the command again")
                }
            }
            return try Passphrase(first)
        }
    }

    static func none(_ message: String) -> Failure {
        Failure(KeyError.Code.passphraseRequired.rawValue, .refused, message, hint: passphraseHint)
    }

    /// Reads the first line, up to a line feed or the end of the file.
    private static func firstLine(of file: FileDescriptor) throws -> SecretBytes {
        do {
            return try SecretBytes(capacity: Passphrase.maximumLength + 2) { buffer in
                var count = 0
                while count < buffer.count {
                    // The loop reads single bytes, because the rest of a pipe may be for another reader.
                    let place = UnsafeMutableRawBufferPointer(rebasing: buffer[count..<count + 1])
                    guard try file.readWaiting(into: place) > 0, place[0] != UInt8(ascii: "\n") else { break }
                    count += 1
                }
                if count > 0, buffer[count - 1] == UInt8(ascii: "\r") { count -= 1 }
                return count
            }
        } catch {
            throw none("cannot read the passphrase from file descriptor \(file.rawValue): \(error)")
        }
    }

    private static func equal(_ left: SecretBytes, _ right: SecretBytes) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { left.elementsEqual($0) } }
    }
}

/// Reads the private keys of `--key`. A passphrase is read once and used for all keys, unless it is typed on a terminal.
struct SigningKeys {
    let passphrases: PassphraseSource
    private var passphrase: Passphrase?

    init(passphrases: PassphraseSource) { self.passphrases = passphrases }

    /// Reads a private key for bundles.
    ///
    /// - Parameter name: a file, or `env:NAME` for an environment variable that contains the PEM text.
    /// - Throws: `KeyError`, `Failure`.
    mutating func key(at name: String) throws -> PrivateKey {
        try read(name) { (text, passphrase) throws(KeyError) in
            do throws(KeyError) {
                return try PrivateKey(pem: text, passphrase: passphrase)
            } catch {
                guard error.code == .wrongAlgorithm,
                    let key = try? ImagePrivateKey(pem: text, passphrase: passphrase)
                else { throw error }
                throw KeyError(
                    error.code, "the key is for \(key.publicKey.algorithm.name); a bundle requires Ed25519",
                    hint: "create an Ed25519 key: otaflash keygen NAME; this key signs MCUboot images: --as mcuboot")
            }
        }
    }

    /// Reads a private key for MCUboot images. The parameter and the errors are the same as for `key(at:)`.
    mutating func imageKey(at name: String) throws -> ImagePrivateKey {
        try read(name) { (text, passphrase) throws(KeyError) in
            try ImagePrivateKey(pem: text, passphrase: passphrase)
        }
    }

    /// Reads a key and, if the key is encrypted, its passphrase.
    ///
    /// - Parameter parse: parses the key. It throws `passphraseRequired` if the key is encrypted and no passphrase is given.
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

    /// Parses a key; nil: the key is encrypted and no passphrase is given.
    private static func opened<Key>(
        _ text: SecretBytes, _ passphrase: Passphrase?, _ name: String,
        _ parse: (SecretBytes, Passphrase?) throws(KeyError) -> Key
    ) throws(KeyError) -> Key? {
        do {
            return try parse(text, passphrase)
        } catch {
            if error.code == .passphraseRequired, passphrase == nil { return nil }
            throw KeyError(error.code, "\(name): \(error.context)", hint: error.hint)
        }
    }

    private static func text(of name: String) throws -> SecretBytes {
        guard name.hasPrefix("env:") else { return try KeyFile.privateKeyText(at: FilePath(name)) }
        let variable = String(name.dropFirst("env:".count))
        guard let value = getenv(variable) else {
            throw KeyError(
                .noSuchFile, "the environment variable \(variable) is not set",
                hint: "set it to the PEM text of a private key, or give a file: --key FILE")
        }
        return SecretBytes(copying: UnsafeRawBufferPointer(start: value, count: strlen(value)))
    }
}
