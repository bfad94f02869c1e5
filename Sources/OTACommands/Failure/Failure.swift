import Glibc

/// The error of a command, as reported to people and scripts. Only the code in this folder converts other errors to a `Failure`.
package struct Failure: Error, Sendable {
    /// The error code: it never changes and is documented in `docs/errors.md`.
    package var code: String
    /// What happened, without a full stop.
    package var message: String
    /// The next steps, one for each line. otaflash adds no line feed to a hint.
    package var hints: [String]
    package var exit: ExitStatus
    /// The usage text of the command, shown below the message on a terminal only.
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

    /// All hints as one text, for scripts.
    package var hint: String { hints.joined(separator: "\n") }

    /// Creates the failure for an invalid argument.
    static func usage(_ message: String, hint: String) -> Failure { Failure("usage", .usage, message, hint: hint) }

    /// Creates the failure for a signal before anything was changed, so that there is nothing to resume.
    static func interrupted(by signal: Int32) -> Failure {
        Failure(
            "interrupted", signal == SIGTERM ? .terminated : .interrupted, "interrupted",
            hint: "nothing was changed; run the command again")
    }
}
