import ArgumentParser
import Glibc
import OTASigners
import OTASigning
import SystemPackage

/// The options for the source of a token's PIN. The default source is the terminal.
struct PINOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Read the token's PIN from this file descriptor (example: 3). Default: ask on the terminal.",
            discussion:
                "If the command has keys in several tokens, each line is the PIN of one token, in the order of the keys. If the "
                + "pkcs11: URI names a file with the PIN (pin-source=PATH), otaflash uses that file instead.",
            valueName: "n"),
        transform: WholeNumber.in(0...Int32.max))
    var pinFd: Int32?

    @Option(
        help: ArgumentHelp(
            "Read the token's PIN from this environment variable.", discussion: "Only for keys in one token.",
            valueName: "name"))
    var pinEnv: String?

    static let hint =
        "use --pin-fd N or --pin-env NAME, give a file with the PIN (pin-source=PATH in the URI), or enter the PIN on a terminal"

    func validate() throws {
        if pinFd != nil, pinEnv != nil {
            throw ValidationError("'--pin-fd' and '--pin-env' cannot be used together.")
        }
        guard let pinEnv else { return }
        // The user may give the PIN itself by mistake. Therefore the error message does not contain the value. The name of a variable
        // does not start with a digit, so a PIN of digits is always refused.
        let isName = pinEnv.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        guard isName, let first = pinEnv.first, !first.isNumber else {
            throw ValidationError("The value of --pin-env is not the name of an environment variable.")
        }
    }

    var isGiven: Bool { pinFd != nil || pinEnv != nil }

    func source(_ console: Console) -> PINs { PINs(self, console) }
}

/// Reads the PINs of tokens. No option contains the PIN itself, because every user of the computer can read the arguments of a process.
final class PINs: PINSource {
    private let options: PINOptions
    private let console: Console
    /// True if the PIN in the variable of `--pin-env` was used. This PIN is for one token. For a second token, the same PIN would be a
    /// wrong try, and several wrong tries lock a token.
    private var isVariableUsed = false

    fileprivate init(_ options: PINOptions, _ console: Console) {
        self.options = options
        self.console = console
    }

    func pin(of request: PINRequest) throws -> SecretBytes {
        let isOnTerminal = request.file == nil && !options.isGiven
        guard isOnTerminal || !request.isLastTry else {
            throw KeyError(
                .pinNeeded, "a wrong PIN would lock the token \(request.token): one try is left",
                hint: "enter the PIN on a terminal: run the command without --pin-fd, --pin-env and pin-source")
        }
        let pin = try read(request)
        guard pin.count > 0 else { throw KeyError(.pinNeeded, "the PIN for the token \(request.token) is empty") }
        return pin
    }

    func willUseKeypad(of token: String) { console.note("type the PIN on the keypad of the token \(token)") }

    private func read(_ request: PINRequest) throws -> SecretBytes {
        if let file = request.file {
            return try KeyFile.secretText(at: FilePath(file), of: "this PIN").firstLine
        }
        if let number = options.pinFd {
            do {
                return try SecretBytes(lineOf: FileDescriptor(rawValue: number))
            } catch {
                throw KeyError(.pinNeeded, "cannot read the PIN from file descriptor \(number): \(error)")
            }
        }
        if let name = options.pinEnv {
            guard !isVariableUsed else {
                throw KeyError(
                    .pinNeeded, "--pin-env is for one token, and the token \(request.token) is another one",
                    hint: "use --pin-fd N with one line for each token, or pin-source=PATH in each URI")
            }
            isVariableUsed = true
            guard let text = getenv(name) else {
                // The message does not contain the given name, because the user may have given the PIN itself by mistake.
                throw KeyError(.pinNeeded, "the environment variable of --pin-env is not set")
            }
            return SecretBytes(copying: UnsafeRawBufferPointer(start: text, count: strlen(text)))
        }
        let remark = request.isLastTry ? " (last try)" : ""
        return try TerminalPrompt.secret("PIN of the token \(request.token)\(remark): ") { reason in
            Failure(
                KeyError.Code.pinNeeded.rawValue, .refused,
                "the PIN of the token \(request.token) is needed: \(reason)",
                hint: PINOptions.hint)
        }
    }
}

extension SecretBytes {
    /// The bytes before the first line feed, without a carriage return at the end.
    fileprivate var firstLine: SecretBytes {
        withUnsafeBytes { bytes in
            var line = bytes.prefix { $0 != UInt8(ascii: "\n") }
            if line.last == UInt8(ascii: "\r") { line = line.dropLast() }
            return SecretBytes(copying: line)
        }
    }
}
