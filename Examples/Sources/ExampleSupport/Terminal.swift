import Glibc
import Synchronization

/// The terminal of this process. While it exists, each key arrives without Return and without echo, and the screen shows only the text of
/// ``show(_:)``.
public final class Terminal: Sendable {
    private let saved: termios
    /// The shown lines, and the size of the terminal at that time.
    private let shown = Mutex<(lines: [String], size: Size)?>(nil)

    public struct Size: Sendable, Equatable {
        public var width: Int
        public var height: Int
    }

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
        // ISIG remains set, so Control-C is still SIGINT. But Control-Z and Control-\ would stop or kill this process with its links, and
        // leave the terminal in this state.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        withUnsafeMutableBytes(of: &settings.c_cc) { for key in [VSUSP, VQUIT] { $0[Int(key)] = 0 } }
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

    /// Shows the lines. The cursor is after the last line. Writes nothing if the screen already has these lines, so that it does not flicker.
    public func show(_ lines: [String]) {
        let size = size
        let isNew = shown.withLock { shown in
            defer { shown = (lines, size) }
            return shown?.lines != lines || shown?.size != size
        }
        if isNew { write("\u{1B}[H\u{1B}[2J" + lines.joined(separator: "\r\n")) }
    }

    /// The number of columns and lines.
    public var size: Size {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return Size(width: 80, height: 24)
        }
        return Size(width: Int(size.ws_col), height: Int(size.ws_row))
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
