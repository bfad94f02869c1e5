import Dispatch
import ExampleSupport
import Glibc

/// The terminal of this process. While it exists, each key arrives without Return and without echo, and the screen shows only the text of
/// ``show(_:)``.
final class Terminal {
    private let saved: termios
    private let keys: any DispatchSourceRead

    init() throws {
        var settings = termios()
        guard isatty(STDOUT_FILENO) == 1, tcgetattr(STDIN_FILENO, &settings) == 0 else {
            throw Failure("the keypad needs a terminal; hint: ble-calculator 9 x 6")
        }
        saved = settings
        // ISIG remains set, so Control-C is still SIGINT.
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
        keys = DispatchSource.makeReadSource(fileDescriptor: STDIN_FILENO)
        write("\u{1B}[?1049h\u{1B}[?25l")
    }

    /// Calls `body` for each typed ASCII character.
    func onKey(_ body: @escaping @Sendable (Character) -> Void) {
        keys.setEventHandler { [keys] in
            var bytes = [UInt8](repeating: 0, count: 64)
            let count = read(STDIN_FILENO, &bytes, bytes.count)
            guard count > 0 else { return keys.cancel() }
            for byte in bytes.prefix(count) where byte < 0x80 { body(Character(UnicodeScalar(byte))) }
        }
        keys.resume()
    }

    func show(_ lines: [String]) {
        write("\u{1B}[H\u{1B}[2J" + lines.joined(separator: "\r\n"))
    }

    /// Restores the screen and the settings of the terminal.
    func restore() {
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
