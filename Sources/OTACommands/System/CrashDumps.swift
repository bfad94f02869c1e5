import CLinux
import Glibc

/// Core dumps and crash reports, which would hold keys and passphrases.
enum CrashDumps {
    private static let fatal = [SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS]

    /// Makes sure that this process leaves none, whatever `core_pattern` and the limits of its parent are. To be called first of all:
    /// a key or a passphrase may be in the environment already.
    static func forbid() {
        // The kernel ignores the limit where a program collects the dumps; that one gets none of a process that is not dumpable
        // (core(5)).
        _ = clinux_set_dumpable(0)
        var limit = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
        // With SWIFT_BACKTRACE the runtime has a report written by another program, with the memory that the registers point to.
        for number in fatal {
            let before = signal(number, SIG_DFL)
            // A shell has its background jobs ignore SIGQUIT.
            if unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self) { signal(number, SIG_IGN) }
        }
    }
}
