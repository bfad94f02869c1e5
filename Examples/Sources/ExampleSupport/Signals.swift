import Dispatch
import Glibc

/// Runs `body`, and cancels it when this process gets SIGINT, SIGTERM or SIGHUP, which the kernel sends when the terminal is closed. Returns
/// after the cleanup of `body`, so that no link, scan or advertisement remains. If `nohup` has started this process, SIGHUP has no effect.
///
/// SIGPIPE also cancels `body`: the output of this process goes to a program that has ended, such as `head`.
///
/// - Returns: the result of `body`. Nil: a signal ended `body`.
/// - Throws: the errors of `body`; after a signal, only ``Undelivered``.
public func untilSignal<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result?
{
    let (signals, feed) = AsyncStream.makeStream(of: Void.self)
    // The kernel sends SIGPIPE to the thread that writes, so a dispatch source does not get it. The write then fails with EPIPE. Only the
    // output can cause SIGPIPE: D-Bus and the packet sockets send with MSG_NOSIGNAL.
    signal(SIGPIPE) { _ in kill(getpid(), SIGTERM) }
    // `body` can change the terminal, so the signals must not end the process before it has started.
    let sources = [SIGINT, SIGTERM, SIGHUP].compactMap { number -> (any DispatchSourceSignal)? in
        let earlier = signal(number, SIG_IGN)
        if number == SIGHUP, isIgnored(earlier) { return nil }
        let source = DispatchSource.makeSignalSource(signal: number)
        source.setEventHandler { feed.yield() }
        source.resume()
        return source
    }
    let task = Task(operation: body)
    let watcher = Task { for await _ in signals { task.cancel() } }
    defer {
        watcher.cancel()
        for source in sources { source.cancel() }
    }
    let result = await task.result
    if case .failure(let error as Undelivered) = result { throw error }
    return task.isCancelled ? nil : try result.get()
}

/// Swift cannot compare C functions, but SIG_IGN is a number.
private func isIgnored(_ handler: sighandler_t?) -> Bool {
    unsafeBitCast(handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
}
