import Glibc

/// Asks the person at the terminal while other tasks run. The question is on stderr, the answer on stdin.
enum TerminalQuestion {
    /// True if stdin and stderr are a terminal.
    static var canBeAsked: Bool { StandardStream.input.isTerminal && StandardStream.error.isTerminal }

    /// Asks a question.
    ///
    /// - Returns: the typed line without its line feed; nil: the task was cancelled, or the terminal was closed.
    static func ask(_ prompt: TerminalLine) async -> String? {
        // Discard input that was typed before the question.
        tcflush(StandardStream.input.rawValue, TCIFLUSH)
        try? StandardStream.error.writer.write([.startOfLine, .part(prompt)])
        // A terminal is readable when a complete line was typed, so the read does not block. Polling, because a wait for both
        // input and cancellation would need a thread.
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
