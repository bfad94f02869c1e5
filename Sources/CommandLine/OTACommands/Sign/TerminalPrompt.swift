import Glibc
import OTASigning
import SystemPackage

/// Prompts for a secret on the terminal itself, even if stdin or stdout is redirected.
enum TerminalPrompt {
    /// Reads a line from the terminal without echo. If a signal ends or stops the process (`PromptSignals`), this function first restores
    /// the terminal and discards the typed characters.
    ///
    /// - Parameter failure: creates the error from a reason. The reason is that there is no terminal, or that the echo cannot be switched
    ///   off.
    /// - Throws: the error of `failure`; `Failure` with the code `interrupted` after a signal that ends the process; `Errno` if the pipe of
    ///   `PromptSignals` cannot be created.
    static func secret(_ prompt: String, failure: (_ reason: String) -> Failure) throws -> SecretBytes {
        let terminal = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var before = termios()
        guard terminal >= 0, tcgetattr(terminal, &before) == 0 else {
            if terminal >= 0 { close(terminal) }
            throw failure("there is no terminal to ask for it")
        }
        defer { close(terminal) }
        let signals = try PromptSignals()
        while true {
            do {
                return try line(after: prompt, from: terminal, signals, restoring: before, failure)
            } catch let pause as Pause {
                signals.stop(by: pause.signal)
            }
        }
    }

    /// The internal error for a signal that stops the process during the prompt. When the process continues, the prompt appears again.
    private struct Pause: Error {
        let signal: Int32

        static func error(for signal: Int32) -> any Error {
            PromptSignals.stopping.contains(signal) ? Pause(signal: signal) : Failure.interrupted(by: signal)
        }
    }

    /// Writes the prompt and reads one line without echo.
    ///
    /// - Throws: `Pause`, `Failure`. The function restores the terminal before it throws an error.
    private static func line(
        after prompt: String, from terminal: Int32, _ signals: borrowing PromptSignals, restoring before: termios,
        _ failure: (_ reason: String) -> Failure
    ) throws -> SecretBytes {
        var silent = before
        silent.c_lflag &= ~tcflag_t(ECHO)
        // In the background, this call causes SIGTTOU and fails with EINTR. The process then stops before it writes the prompt or reads
        // input.
        while tcsetattr(terminal, TCSAFLUSH, &silent) != 0 {
            guard errno == EINTR else {
                throw failure("the echo of the terminal cannot be switched off: \(Errno(rawValue: errno))")
            }
            if let signal = signals.received() { throw Pause.error(for: signal) }
        }
        defer { restore(before, of: terminal) }
        write(.part(TerminalLine(prompt)), on: terminal)
        return try SecretBytes(capacity: Passphrase.maximumLength + 1) { buffer in
            var count = 0
            while count < buffer.count {
                if let signal = signals.wait(forInputFrom: terminal) { throw Pause.error(for: signal) }
                let read = Glibc.read(terminal, buffer.baseAddress?.advanced(by: count), 1)
                if read < 0, errno == EINTR { continue }
                guard read > 0, buffer[count] != UInt8(ascii: "\n") else { break }
                count += 1
            }
            return count
        }
    }

    /// Restores the echo and discards the typed characters, even while the process is in the background. In the background, `tcsetattr`
    /// causes SIGTTOU. `PromptSignals` has a handler for SIGTTOU, so each call would fail with EINTR. Therefore this function blocks
    /// SIGTTOU.
    private static func restore(_ before: termios, of terminal: Int32) {
        var blocked = sigset_t()
        var unblocked = sigset_t()
        sigemptyset(&blocked)
        sigaddset(&blocked, SIGTTOU)
        pthread_sigmask(SIG_BLOCK, &blocked, &unblocked)
        defer { pthread_sigmask(SIG_SETMASK, &unblocked, nil) }
        var before = before
        while tcsetattr(terminal, TCSAFLUSH, &before) != 0, errno == EINTR {}
        write(.line(""), on: terminal)
    }

    private static func write(_ piece: TerminalPiece, on terminal: Int32) {
        try? TerminalWriter(descriptor: terminal).write(piece)
    }
}
