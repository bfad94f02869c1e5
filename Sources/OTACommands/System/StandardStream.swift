import Glibc

/// A standard stream: stdin, stdout or stderr.
enum StandardStream: Int32 {
    case input = 0
    case output = 1
    case error = 2

    var isTerminal: Bool { isatty(rawValue) == 1 }

    /// The columns of its terminal; nil: not a terminal, or unknown.
    var columns: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// The lines of its terminal; nil: not a terminal, or unknown.
    var rows: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else { return nil }
        return Int(size.ws_row)
    }

    /// A writer to the stream, without colours.
    var writer: TerminalWriter { TerminalWriter(descriptor: rawValue) }

    /// Ignores SIGPIPE and opens `/dev/null` for each closed standard stream.
    ///
    /// Otherwise the next opened file, such as a bundle, would become that stream, and output would be written into it.
    /// Without SIGPIPE, a write to a closed pipe fails with an error that can be reported.
    static func secure() {
        signal(SIGPIPE, SIG_IGN)
        for stream in [input, output, error] where fcntl(stream.rawValue, F_GETFD) == -1 {
            // `open` returns the lowest free descriptor, which is this one. stdout and stderr are read-only, and stdin is
            // write-only, so that their use still fails.
            _ = open("/dev/null", stream == .input ? O_WRONLY : O_RDONLY)
        }
    }
}
