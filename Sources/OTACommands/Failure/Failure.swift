import Glibc

/// Why a command did not do what it was asked for, as it is told to people and to scripts. Every other error becomes one
/// in this folder, and nowhere else.
package struct Failure: Error, Sendable {
    /// Stable: documented in `docs/errors.md`.
    package var code: String
    /// What happened, without a full stop.
    package var message: String
    /// What to do next, one step a line. No line holds a line feed of ours.
    package var hints: [String]
    package var exit: ExitStatus
    /// More lines for the person at the terminal, under the message: how the command is used.
    var usage: [String] = []

    init(_ code: String, _ exit: ExitStatus, _ message: String, hints: [String]) {
        self.code = code
        self.message = message
        self.hints = hints
        self.exit = exit
    }

    init(_ code: String, _ exit: ExitStatus, _ message: String, hint: String) {
        self.init(code, exit, message, hints: [hint])
    }

    /// All hints, for scripts.
    package var hint: String { hints.joined(separator: "\n") }

    /// An argument that cannot be meant.
    static func usage(_ message: String, hint: String) -> Failure { Failure("usage", .usage, message, hint: hint) }

    /// Nothing was under way that could be resumed.
    static func interrupted(by signal: Int32) -> Failure {
        Failure(
            "interrupted", signal == SIGTERM ? .terminated : .interrupted, "interrupted",
            hint: "nothing was changed; type the command again")
    }
}
