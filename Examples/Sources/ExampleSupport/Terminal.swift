import Dispatch
import Glibc

/// The terminal of this process. While it exists, each key arrives without Return and without echo, and the screen shows only the text of
/// ``show(_:)``.
public final class Terminal {
    private let saved: termios
    private let keys: any DispatchSourceRead

    /// - Parameter hint: what to do without a terminal, for the error.
    public init(hint: String) throws {
        var settings = termios()
        guard isatty(STDOUT_FILENO) == 1, tcgetattr(STDIN_FILENO, &settings) == 0 else {
            throw Failure("this command needs a terminal; hint: \(hint)")
        }
        saved = settings
        // ISIG remains set, so Control-C is still SIGINT.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        keys = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO)
        write("\u{1B}[?1049h\u{1B}[?25l")
    }

    /// Calls `body` for each typed character.
    public func onKey(_ body: @escaping @Sendable (Character) -> Void) {
        keys.setEventHandler { [keys] in
            var bytes = [UInt8](repeating: 0, count: 4096)
            let count = read(STDIN_FILENO, &bytes, bytes.count)
            guard count > 0 else { return keys.cancel() }
            for character in String(decoding: bytes.prefix(count), as: UTF8.self) { body(character) }
        }
        keys.resume()
    }

    public func show(_ lines: [String]) {
        write("\u{1B}[H\u{1B}[2J" + lines.joined(separator: "\r\n"))
    }

    /// Restores the screen and the settings of the terminal.
    public func restore() {
        keys.cancel()
        write("\u{1B}[?25h\u{1B}[?1049l")
        var settings = saved
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    private func write(_ text: String) {
        print(text, terminator: "")
        fflush(nil)
    }
}
