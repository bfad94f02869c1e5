import Glibc

/// Ends the process some time after the limit of `--timeout`, whatever blocks: a stopped terminal, a FIFO, the bus.
enum Watchdog {
    /// How long after the limit a command may take to stop by itself and to report it: a session stops within 2 s.
    private static let grace = Duration.seconds(4)

    /// Starts the only watchdog of the process. A timer of the kernel, since a blocked writer can hold up every thread that runs tasks.
    static func start(limit: Duration) {
        signal(SIGALRM) { _ in _exit(ExitStatus.linkLost.rawValue) }
        alarm(UInt32((limit + grace).components.seconds))
    }
}
