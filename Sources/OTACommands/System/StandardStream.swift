import Glibc

/// stdin, stdout and stderr.
enum StandardStream: Int32 {
    case input = 0
    case output = 1
    case error = 2

    var isTerminal: Bool { isatty(rawValue) == 1 }

    /// Columns of the terminal behind it; nil: there is none, or it does not tell.
    var columns: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Lines of the terminal behind it; nil: there is none, or it does not tell.
    var rows: Int? {
        var size = winsize()
        guard ioctl(rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0 else { return nil }
        return Int(size.ws_row)
    }

    /// Without colours.
    var writer: TerminalWriter { TerminalWriter(descriptor: rawValue) }

    /// Makes sure that no file we open becomes a standard stream because that one was closed: an answer written into a
    /// bundle would be the least of it. And a reader that went away is an error to be told, not a signal to die of.
    static func secure() {
        signal(SIGPIPE, SIG_IGN)
        for stream in [input, output, error] where fcntl(stream.rawValue, F_GETFD) == -1 {
            // The lowest free descriptor is this one. Read-only, so that writing to it fails as it would have.
            _ = open("/dev/null", stream == .input ? O_WRONLY : O_RDONLY)
        }
    }
}
