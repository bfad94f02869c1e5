import Glibc

/// The terminal of this process. While it exists, each key arrives without Return and without echo, and the screen shows only the text of
/// ``show(_:)``.
public final class Terminal: Sendable {
    private let saved: termios

    /// Runs `body` with the terminal, and restores the terminal after it.
    ///
    /// - Parameter hint: what to run without a terminal.
    public static func with<Result>(
        showsCursor: Bool = false, hint: String, _ body: (Terminal) async throws -> Result
    ) async throws -> Result {
        let terminal = try Terminal(showsCursor: showsCursor, hint: hint)
        defer { terminal.restore() }
        return try await body(terminal)
    }

    private init(showsCursor: Bool = false, hint: String) throws {
        var settings = termios()
        guard isatty(STDOUT_FILENO) == 1, tcgetattr(STDIN_FILENO, &settings) == 0 else {
            throw Failure("this command needs a terminal; hint: \(hint)")
        }
        // A program in the background must not change the terminal. The kernel would stop it.
        guard !isInBackground else { throw Failure("this command cannot run in the background; hint: \(hint)") }
        saved = settings
        // ISIG remains set, so Control-C is still SIGINT.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        write("\u{1B}[?1049h" + (showsCursor ? "" : "\u{1B}[?25l"))
    }

    /// Calls `body` for each typed character.
    public func onKey(_ body: @escaping @Sendable (Character) -> Void) {
        Task {
            var joiner = CharacterJoiner()
            for await bytes in standardInput() { joiner.add(bytes).forEach(body) }
        }
    }

    /// Shows the lines. The cursor is after the last line.
    public func show(_ lines: [String]) {
        write("\u{1B}[H\u{1B}[2J" + lines.joined(separator: "\r\n"))
    }

    /// The number of columns and lines.
    public var size: (width: Int, height: Int) {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return (80, 24)
        }
        return (Int(size.ws_col), Int(size.ws_row))
    }

    /// Restores the screen and the settings of the terminal.
    private func restore() {
        write("\u{1B}[?25h\u{1B}[?1049l")
        var settings = saved
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    private func write(_ text: String) {
        print(text, terminator: "")
        fflush(nil)
    }
}
