import Glibc
import OTASigning
import SystemPackage

/// An element of the output for the user: text, or a control sequence.
package enum TerminalPiece: Sendable, Equatable {
    /// Text with a line feed.
    case line(TerminalLine)
    /// Text without a line feed.
    case part(TerminalLine)
    /// Moves the cursor to the first column and erases the line.
    case startOfLine
    /// Moves the cursor up by this number of lines and to the first column. Then erases everything after the cursor.
    case eraseLines(Int)

    package func rendered(hasColours: Bool) -> String {
        switch self {
        case .line(let line): line.rendered(hasColours: hasColours) + "\n"
        case .part(let line): line.rendered(hasColours: hasColours)
        case .startOfLine: "\r\u{1B}[K"
        case .eraseLines(let count): "\r" + (count > 0 ? "\u{1B}[\(count)A" : "") + "\u{1B}[J"
        }
    }
}

/// Writes the output for the user and for scripts. In this target, only this type writes text to stdout, stderr or the terminal.
/// `OutputFile` writes binary output to stdout.
///
/// The writer accepts only `TerminalPiece` and `JSONLine`, whose text has no unprintable scalars. It does not accept plain text.
struct TerminalWriter: Sendable {
    let descriptor: Int32
    var hasColours = false

    func write(_ pieces: [TerminalPiece]) throws(Errno) {
        try write(pieces.map { $0.rendered(hasColours: hasColours) }.joined())
    }

    func write(_ piece: TerminalPiece) throws(Errno) { try write([piece]) }

    func write(_ object: JSONLine) throws(Errno) { try write(object.text + "\n") }

    /// Writes without a buffer, so that no output is lost if the process crashes or is killed.
    private func write(_ text: String) throws(Errno) {
        try FileDescriptor(rawValue: descriptor).writeAllWaiting(text)
    }
}

/// A standard stream: stdin, stdout or stderr.
enum StandardStream: Int32 {
    case input = 0
    case output = 1
    case error = 2

    var isTerminal: Bool { isatty(rawValue) == 1 }

    /// The width of the stream's terminal in columns; nil if the stream is not a terminal, or if the width is unknown.
    var columns: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// The number of lines of the stream's terminal; nil if the stream is not a terminal, or if the number is unknown.
    var rows: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else { return nil }
        return Int(size.ws_row)
    }

    /// A writer to the stream, without colours.
    var writer: TerminalWriter { TerminalWriter(descriptor: rawValue) }

    /// Ignores SIGPIPE and SIGXFSZ, and opens `/dev/null` for each closed standard stream.
    ///
    /// While these signals are ignored, a write to a closed pipe, or beyond the maximum file size (`ulimit -f`), fails with an error that
    /// can be reported. If a standard stream stayed closed, the next opened file, such as a bundle, would get the descriptor of this
    /// stream. Output would then be written into the opened file.
    static func secure() {
        signal(SIGPIPE, SIG_IGN)
        signal(SIGXFSZ, SIG_IGN)
        for stream in [input, output, error] where fcntl(stream.rawValue, F_GETFD) == -1 {
            // `open` returns the lowest free descriptor, which is the descriptor of this stream. Use of the stream still fails, because
            // stdout and stderr are read-only, and stdin is write-only.
            _ = open("/dev/null", stream == .input ? O_WRONLY : O_RDONLY)
        }
    }
}
