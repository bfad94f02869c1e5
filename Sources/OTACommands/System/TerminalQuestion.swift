import Glibc

/// Asks the person at the terminal, while other things go on: on stderr, and answered on stdin.
enum TerminalQuestion {
    /// Whether there is somebody to ask.
    static var canBeAsked: Bool { StandardStream.input.isTerminal && StandardStream.error.isTerminal }

    /// The line that was typed, without its line feed; nil: none came until the task was cancelled, or the terminal has gone.
    static func ask(_ prompt: TerminalLine) async -> String? {
        // What was typed before the question is no answer to it.
        tcflush(StandardStream.input.rawValue, TCIFLUSH)
        try? StandardStream.error.writer.write([.startOfLine, .part(prompt)])
        // A terminal has a line when all of it was typed, so a read does not wait; and nothing else can be waited for together
        // with a cancellation without a thread.
        while !Task.isCancelled {
            var file = pollfd(fd: StandardStream.input.rawValue, events: Int16(POLLIN), revents: 0)
            if poll(&file, 1, 0) > 0 { return line() }
            try? await Task.sleep(for: .milliseconds(50))
        }
        try? StandardStream.error.writer.write(.line(""))
        return nil
    }

    private static func line() -> String? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(StandardStream.input.rawValue, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
