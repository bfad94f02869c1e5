import Glibc
import Synchronization
import SystemPackage

/// Handles signals while a prompt waits for input.
///
/// The signal handler only writes the signal number to a pipe. So a prompt can wait for signals and input at the same time, and the kernel
/// may deliver the signal to any thread.
///
/// Signals that the process ignores, such as SIGPIPE, remain ignored. SIGKILL and SIGSTOP cannot be handled. Crash signals such as
/// SIGSEGV are not handled, because the process cannot continue after a crash.
struct PromptSignals: ~Copyable {
    /// The signals after which the prompt appears again. SIGSTOP cannot be handled, so the list contains SIGCONT, which follows each stop.
    /// While the process is stopped, the shell switches the echo on. After SIGCONT, a new prompt switches the echo off.
    static let stopping = [SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT]
    /// The signals that end a process by default.
    private static let ending =
        [
            SIGHUP, SIGINT, SIGQUIT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2, SIGSTKFLT, SIGVTALRM, SIGPROF, SIGXCPU,
            SIGIO, SIGPWR,
        ] + Array(__libc_current_sigrtmin()...__libc_current_sigrtmax())

    /// The write end of the pipe. It is atomic, because any thread may receive a signal.
    private static let writeEnd = Atomic<Int32>(-1)
    private let readEnd: Int32
    private let before: [(signal: Int32, action: sigaction)]

    /// Installs the signal handlers. `deinit` removes them.
    init() throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Errno(rawValue: errno) }
        readEnd = ends[0]
        Self.writeEnd.store(ends[1], ordering: .releasing)
        var action = sigaction()
        action.__sigaction_handler.sa_handler = { signal in
            let interrupted = errno
            var byte = UInt8(truncatingIfNeeded: signal)
            _ = write(PromptSignals.writeEnd.load(ordering: .acquiring), &byte, 1)
            errno = interrupted
        }
        before = (Self.ending + Self.stopping).compactMap { signal in
            var old = sigaction()
            sigaction(signal, nil, &old)
            let isIgnored =
                unsafeBitCast(old.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
            guard !isIgnored else { return nil }
            sigaction(signal, &action, nil)
            return (signal, old)
        }
    }

    deinit {
        for (signal, old) in before {
            var old = old
            sigaction(signal, &old, nil)
        }
        close(Self.writeEnd.load(ordering: .relaxed))
        close(readEnd)
    }

    /// Stops the process with the default action of `signal`. The function returns when the user continues the process. If no shell can
    /// continue the process (orphaned process group), the kernel ignores `signal`, and the function returns at once. For SIGCONT, the
    /// function does nothing.
    borrowing func stop(by signal: Int32) {
        guard signal != SIGCONT else { return }
        // SIGCONT also gets its default action. With the handler, the SIGCONT that continues the process would cause a second prompt.
        let changed = [signal, SIGCONT]
        let ours = changed.map { signal in
            var byDefault = sigaction()
            var ours = sigaction()
            sigaction(signal, &byDefault, &ours)
            return ours
        }
        raise(signal)
        for (signal, ours) in zip(changed, ours) {
            var ours = ours
            sigaction(signal, &ours, nil)
        }
    }

    /// Waits for input or a signal.
    ///
    /// - Returns: the signal; nil if input is available and no signal was received.
    borrowing func wait(forInputFrom terminal: Int32) -> Int32? {
        var files = [readEnd, terminal].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        while poll(&files, 2, -1) < 0, errno == EINTR {}
        return files[0].revents == 0 ? nil : next()
    }

    /// Returns the oldest received signal that this type has not returned yet. Returns nil at once if there is no such signal.
    borrowing func received() -> Int32? {
        var file = pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)
        return poll(&file, 1, 0) > 0 ? next() : nil
    }

    private borrowing func next() -> Int32 {
        var byte: UInt8 = 0
        return read(readEnd, &byte, 1) == 1 ? Int32(byte) : SIGTERM
    }
}
