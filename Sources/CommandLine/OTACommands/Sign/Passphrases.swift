import ArgumentParser
import Glibc
import OTASigning
import SystemPackage

/// The options for the source of a private key's passphrase. The default source is the terminal.
struct PassphraseOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Read the key's passphrase from this file descriptor (example: 3). Default: ask on the terminal.",
            discussion: "All encrypted keys of one command must have the same passphrase.", valueName: "n"),
        transform: WholeNumber.in(0...Int32.max))
    var passphraseFd: Int32?

    @Option(
        help: ArgumentHelp(
            "Read the key's passphrase from this environment variable.", valueName: "name"))
    var passphraseEnv: String?

    func validate() throws {
        if passphraseFd != nil, passphraseEnv != nil {
            throw ValidationError("'--passphrase-fd' and '--passphrase-env' cannot be used together.")
        }
        // The user may give the passphrase itself by mistake. Therefore the error message does not contain the value.
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

/// The source of a passphrase. No option contains the passphrase itself, because every user of the computer can read the arguments of a
/// process.
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
    ///   - isNew: true for a new key. The user must then type the passphrase twice, if the source is the terminal.
    /// - Throws: `Failure` if the passphrase cannot be read, or if the user typed two different passphrases; `KeyError` if the passphrase
    ///   is empty or too long.
    func passphrase(for what: String, isNew: Bool = false) throws -> Passphrase {
        switch self {
        case .descriptor(let number):
            do {
                return try Passphrase(SecretBytes(lineOf: FileDescriptor(rawValue: number)))
            } catch let error as Errno {
                throw Self.none("cannot read the passphrase from file descriptor \(number): \(error)")
            }
        case .environment(let name):
            guard let text = getenv(name) else { throw Self.none("the environment variable \(name) is not set") }
            let bytes = UnsafeRawBufferPointer(start: text, count: strlen(text))
            return try Passphrase(SecretBytes(copying: bytes))
        case .terminal:
            let first = try TerminalPrompt.secret("Passphrase for \(what): ", failure: Self.noTerminal)
            if isNew {
                let second = try TerminalPrompt.secret("Repeat the passphrase: ", failure: Self.noTerminal)
                guard Self.equal(first, second) else {
                    throw Failure(
                        "passphrase-mismatch", .refused, "the two passphrases differ",
                        hint: "nothing was written; run the command again")
                }
            }
            return try Passphrase(first)
        }
    }

    private static func noTerminal(_ reason: String) -> Failure { none("a passphrase is needed: \(reason)") }

    static func none(_ message: String) -> Failure {
        Failure(KeyError.Code.passphraseRequired.rawValue, .refused, message, hint: passphraseHint)
    }

    private static func equal(_ left: SecretBytes, _ right: SecretBytes) -> Bool {
        left.withUnsafeBytes { left in right.withUnsafeBytes { left.elementsEqual($0) } }
    }
}

extension SecretBytes {
    /// Reads the next line of a file: up to a line feed, the end of the file, or 2 bytes more than `Passphrase.maximumLength`. The result
    /// contains neither the line feed nor a carriage return before it.
    ///
    /// - Throws: `Errno`.
    convenience init(lineOf file: FileDescriptor) throws {
        try self.init(capacity: Passphrase.maximumLength + 2) { buffer in
            var count = 0
            while count < buffer.count {
                // The loop reads single bytes, because the bytes after this line may be for another reader of the same pipe.
                let place = UnsafeMutableRawBufferPointer(rebasing: buffer[count..<count + 1])
                guard try file.readWaiting(into: place) > 0, place[0] != UInt8(ascii: "\n") else { break }
                count += 1
            }
            if count > 0, buffer[count - 1] == UInt8(ascii: "\r") { count -= 1 }
            return count
        }
    }
}
