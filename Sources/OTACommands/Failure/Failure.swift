import Glibc

/// Why a command did not do what it was asked for, as it is told to people and to scripts. Every other error becomes one
/// in this folder, and nowhere else.
package struct Failure: Error, Sendable {
    /// Stable: documented in `docs/errors.md`.
    package var code: String
    /// What happened, without a full stop.
    package var message: String
    /// What to do next; the lines of a command to type stand by themselves.
    package var hint: String
    package var exit: ExitStatus
    /// More for the person at the terminal, under the message: how the command is used.
    var usage = ""

    init(_ code: String, _ exit: ExitStatus, _ message: String, hint: String) {
        self.code = code
        self.message = message
        self.hint = hint
        self.exit = exit
    }

    /// An argument that cannot be meant.
    static func usage(_ message: String, hint: String) -> Failure { Failure("usage", .usage, message, hint: hint) }

    /// Nothing was under way that could be resumed.
    static func interrupted(by signal: Int32) -> Failure {
        Failure(
            "interrupted", signal == SIGTERM ? .terminated : .interrupted, "interrupted",
            hint: "nothing was changed; type the command again")
    }
}
