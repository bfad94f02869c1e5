import Glibc
import OTASigning
import SystemPackage

/// Asks on the terminal itself, whatever stdin and stdout are, for what must not be seen.
enum TerminalPrompt {
    /// A line typed without echo. The terminal is as before when this returns, also after SIGINT, SIGQUIT, SIGTERM and SIGHUP, and while
    /// the process is stopped by SIGTSTP.
    ///
    /// - Throws: `Failure`: `passphrase-required` without a terminal, `interrupted`.
    static func secret(_ prompt: String) throws -> SecretBytes {
        let terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var before = termios()
        guard terminal >= 0, tcgetattr(terminal, &before) == 0 else {
            if terminal >= 0 { close(terminal) }
            throw PassphraseSource.none("a passphrase is needed, and there is no terminal to ask for it")
        }
        defer { close(terminal) }
        let signals = try PromptSignals()
        var silent = before
        silent.c_lflag &= ~tcflag_t(ECHO)
        func begin() {
            tcsetattr(terminal, TCSAFLUSH, &silent)
            write(.part(TerminalLine(prompt)), on: terminal)
        }
        begin()
        defer {
            tcsetattr(terminal, TCSAFLUSH, &before)
            write(.line(""), on: terminal)
        }
        return try line(from: terminal, signals) {
            tcsetattr(terminal, TCSAFLUSH, &before)
            signals.stop()
            begin()
        }
    }

    /// - Parameter stop: stops the process, and returns when it goes on.
    private static func line(
        from terminal: Int32, _ signals: borrowing PromptSignals, stop: () -> Void
    ) throws -> SecretBytes {
        try SecretBytes(capacity: Passphrase.maximumLength + 1) { buffer in
            var count = 0
            while count < buffer.count {
                if let signal = signals.wait(forInputFrom: terminal) {
                    guard signal == SIGTSTP else { throw Failure.interrupted(by: signal) }
                    // What was typed so far is gone, as the terminal's own line is.
                    stop()
                    continue
                }
                let read = Glibc.read(terminal, buffer.baseAddress?.advanced(by: count), 1)
                if read < 0, errno == EINTR { continue }
                guard read > 0, buffer[count] != UInt8(ascii: "\n") else { break }
                count += 1
            }
            return count
        }
    }

    private static func write(_ piece: TerminalPiece, on terminal: Int32) {
        try? TerminalWriter(descriptor: terminal).write(piece)
    }
}

/// Signals as bytes in a pipe while a prompt waits: on whichever thread they arrive, they are seen
/// together with the typed line, and nothing happens in the handler but one write.
private struct PromptSignals: ~Copyable {
    private nonisolated(unsafe) static var writeEnd: Int32 = -1
    private static let signals = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP]
    private let readEnd: Int32
    private let before: [sigaction]

    init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Errno(rawValue: errno) }
        readEnd = ends[0]
        Self.writeEnd = ends[1]
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { signal in
            var byte = UInt8(truncatingIfNeeded: signal)
            _ = write(PromptSignals.writeEnd, &byte, 1)
        }
        before = Self.signals.map { signal in
            var old = sigaction()
            sigaction(signal, &action, &old)
            return old
        }
    }

    deinit {
        for (signal, old) in zip(Self.signals, before) {
            var old = old
            sigaction(signal, &old, nil)
        }
        close(Self.writeEnd)
        close(readEnd)
    }

    /// Does what SIGTSTP does by itself: the process stops, unless no shell is there to continue it.
    borrowing func stop() {
        var byDefault = sigaction()
        var ours = sigaction()
        sigaction(SIGTSTP, &byDefault, &ours)
        raise(SIGTSTP)
        sigaction(SIGTSTP, &ours, nil)
    }

    /// The signal that came; nil: there is input.
    borrowing func wait(forInputFrom terminal: Int32) -> Int32? {
        var files = [readEnd, terminal].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while poll(&files, 2, -1) < 0, errno == EINTR {}
        guard files[0].revents != 0 else { return nil }
        var byte: UInt8 = 0
        return read(readEnd, &byte, 1) == 1 ? Int32(byte) : SIGTERM
    }
}
